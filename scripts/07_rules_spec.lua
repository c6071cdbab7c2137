-- A test of 07_rules.lua: its four classes keep what it promises, line by line.
local testing = require("optlua").testing

describe("07_rules.lua", function()
  local text = testing.output(testing.load, "scripts/07_rules.lua")

  it("prints four tables in which nothing fails", function()
    local names = {}
    for name in text:gmatch "([%w()]+): %d+ hold, [^\n]*\n" do names[#names + 1] = name end
    assert.same({ "MyMuon", "MyFactored", "MyScheduleFree", "MyLookahead(AdamW)" }, names)
    assert.is_nil(text:find "FAIL")
  end)

  it("goes downhill with each of them", function()
    local falls = {}
    for first, last in text:gmatch "falls [^\n]- ([%d.e+-]+) to ([%d.e+-]+) in 100 updates" do
      falls[#falls + 1] = tonumber(last) < tonumber(first)
    end
    assert.same({ true, true, true, true, true, true, true, true }, falls)
  end)
end)
