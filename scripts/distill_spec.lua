-- A test of distill.lua: the teacher's student knows the digit that it has never seen, the other cannot.
local testing = require("optlua").testing

describe("distill.lua", function()
  it("hands on what the teacher knows", function()
    local text = testing.output(testing.load, "scripts/distill.lua", "--epochs=16", "--teacher=128")
    local seen = {}
    for name, share in text:gmatch "([%a ]-) +%d+ parameters  accuracy [%d.]+  on the 3s ([%d.]+)" do seen[name] = tonumber(share) end
    assert.equal(0, seen["student of the labels"])
    assert.is_true(seen["student of the teacher"] > 0)
    assert.is_true(seen.teacher > 0.9)
  end)
end)
