-- A test of reinforce.lua: some episodes, the same again for the same seed.
local testing = require("optlua").testing

describe("reinforce.lua", function()
  local function run(seed)
    return testing.output(testing.load, "scripts/reinforce.lua", "--episodes=20", "--seed", seed)
  end

  it("plays the same episodes for the same seed, and others for another", function()
    local text = run "1"
    assert.matches("^episode   20  ticks +%d+  mean return", text)
    assert.equal(text, run "1")
    assert.not_equal(text, run "2")
  end)
end)
