-- A test of 03_groups.lua: what it shows before it trains, and that it learns.
local testing = require("optlua").testing

describe("03_groups.lua", function()
  local text = testing.output(testing.load, "scripts/03_groups.lua")

  it("has a group for each kind of parameter", function()
    for _, words in ipairs { "no_decay.*AdamW", "outer.*AdamW", "hidden.*Muon", "body%.0%.proj%.weight" } do
      assert.matches(words, text)
    end
  end)

  it("learns to say what it hears", function()
    local losses = {}
    for loss in text:gmatch "\n%d+\t([%d.]+)\t" do losses[#losses + 1] = tonumber(loss) end
    assert.equal(5, #losses)
    assert.is_true(losses[5] < losses[1])
  end)
end)
