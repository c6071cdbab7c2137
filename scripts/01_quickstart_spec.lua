-- A test of 01_quickstart.lua: run it with `optlua test scripts`.
local testing = require("optlua").testing

describe("01_quickstart.lua", function()
  it("names the digits, and its rate falls to the end", function()
    local text = testing.output(testing.load, "scripts/01_quickstart.lua")
    assert.is_true(tonumber(text:match "test accuracy ([%d.]+)") >= 0.96)
    local rates = {}
    for rate in text:gmatch "lr ([%d.]+)" do rates[#rates + 1] = tonumber(rate) end
    assert.equal(20, #rates)
    for k = 2, #rates do assert.is_true(rates[k] < rates[k - 1]) end
  end)
end)
