-- The progress bar: whole lines where there is no terminal, one redrawn line on a terminal.
local process = require "process"
local Terminal = require "terminal"

local folder

local script = [[
local progress = require("optlua").progress
local bar <close> = progress(4, { label = "epoch 1", unit = "batch" })
for step = 1, 4 do bar:update(1, ("loss %.1f"):format(1 / step)) end
]]

describe("the progress bar", function()
  before_each(function()
    folder = process.folder()
    process.write(folder .. "/bar.lua", script)
  end)
  after_each(function() process.remove(folder) end)

  it("prints whole lines on stderr where there is no terminal", function()
    local result = process.run(folder, "optlua bar.lua")
    assert.equal("", result.out)
    assert.is_nil(result.err:find "[\r\27]")
    assert.matches("^epoch 1  1/4  [%d.e+]+ batch/s  ETA 0:00  loss 1.0\n", result.err)
    assert.matches("\nepoch 1  4/4  [%d.e+]+ batch/s  0:00  loss 0.2\n$", result.err)
    local _, lines = result.err:gsub("\n", "")
    assert.equal(2, lines) -- not one a step
  end)

  it("redraws one line on a terminal, in colour unless NO_COLOR is set", function()
    if not Terminal.available() then return pending "no pseudo terminals here" end
    local colored = Terminal.open(folder, "optlua bar.lua"):expect "loss 0.2\r\n"
    assert.is_truthy(colored:find("\r\27[K", 1, true))
    assert.is_truthy(colored:find("\27[32m", 1, true))
    local plain = Terminal.open(folder, "env NO_COLOR=1 optlua bar.lua"):expect "loss 0.2\r\n"
    assert.is_truthy(plain:find("━━━", 1, true))
    assert.is_nil(plain:find("\27[32m", 1, true))
  end)

  it("counts without a total, and refuses bad arguments", function()
    local result = process.run(folder, [[optlua -e 'local b = require("optlua").progress() b:update(7) b:close() b:close()']])
    assert.matches("^7  [%d.e+]+ it/s  0:00\n7  ", result.err)
    local bad = process.run(folder, [[optlua -e 'require("optlua").progress(-1)']])
    assert.matches("optlua.progress: total: expected an integer at least 0, got %-1", bad.err)
    local unknown = process.run(folder, [[optlua -e 'require("optlua").progress(1, { lable = "x" })']])
    assert.matches('unknown option "lable" %(did you mean "label"%?%)', unknown.err)
  end)
end)
