-- A test of sequence.lua: it counts brackets.
local testing = require("optlua").testing

describe("sequence.lua", function()
  it("tells balanced strings from others", function()
    local text = testing.output(testing.load, "scripts/sequence.lua", "--items=2000", "--longest=12", "--epochs=4", "--lr=0.01")
    local best = 0
    for accuracy in text:gmatch "  accuracy ([%d.]+)" do best = math.max(best, tonumber(accuracy)) end
    assert.is_true(best > 0.6)
    assert.matches("\n%(%(%)%(%(%)%)%) +[not ]*balanced\n", text)
  end)
end)
