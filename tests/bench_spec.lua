-- What the benchmarks and the Makefile say of themselves.
local process = require "process"

describe("the benchmarks", function()
  it("say what the words of their lines mean", function()
    for _, name in ipairs { "run", "optim", "peers" } do
      local words = process.read(("scripts/bench/%s.lua"):format(name)):match "\ntiming.legend(%b())"
      local text = process.run(".", ([[optlua -e 'package.path = "scripts/bench/?.lua;" .. package.path require("timing").legend%s']]):format(words)).out
      assert.matches("ratio: how many times as long as the first, which is the floor", text)
      for word in words:gmatch '"([^"]+)"' do assert.is_truthy(text:find("\n  " .. word .. " ", 1, true), word) end
    end
  end)
end)

describe("make help", function()
  it("lists targets and options", function()
    local text = process.run(".", "make help").out
    for _, word in ipairs { "make bench ", "QUICK=1 (", "NO_INSTALL=1 (", "LUA_LIBS", "OPENMP=0" } do
      assert.is_truthy(text:find(word, 1, true), word)
    end
    assert.not_matches("BUILD ?=", text, 1, true)
  end)
end)
