-- The library works in a stock lua5.4, sets no global, and leaves the host alone.
local function run(code, prefix, suffix)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(code)
  file:close()
  local pipe = assert(io.popen((prefix or "") .. " lua5.4 " .. path .. " 2>&1" .. (suffix or "")))
  local text = pipe:read "a"
  pipe:close()
  os.remove(path)
  return text
end

describe("in a stock lua5.4", function()
  it("loads from LUA_PATH and LUA_CPATH and computes", function()
    assert.are.equal("tensor([2., 4.])\n", run [[
      local optlua = require "optlua"
      local w = optlua.tensor({ 1, 2 }, { requires_grad = true });
      (w * w):sum():backward()
      print(w.grad)]])
  end)

  it("sets no global", function()
    assert.are.equal("0\n", run [[
      local before = {}
      for name in pairs(_G) do before[name] = true end
      local optlua = require "optlua"
      local _ = optlua.data, optlua.metrics, optlua.gradcheck, optlua.options
      local count = 0
      for name in pairs(_G) do if not before[name] then count = count + 1 end end
      print(count)]])
  end)

  it("leaves collector, locale and C's locale alone", function()
    assert.are.equal("generational C true\n", run [[
      collectgarbage "generational"
      local optlua = require "optlua"
      for _ = 1, 100 do optlua.zeros(1000, 1000) end
      io.write(collectgarbage "incremental", " ", os.setlocale(nil), " ", tostring(collectgarbage "isrunning"), "\n")]])
  end)

  it("works twice in one process, through two states of the loader", function()
    assert.are.equal("true\n", run [[
      local first = require "optlua"
      local t = first.ones(2)
      package.loaded.optlua, package.loaded["optlua.core"] = nil, nil
      local second = require "optlua"
      print((t + second.ones(2)):equal(second.tensor { 2, 2 }))]])
  end)

  it("ends well while the threads of its team still spin", function()
    for _ = 1, 2 do
      assert.are.equal("done\n0\n", run([[
        local optlua = require "optlua"
        local a = optlua.ones(1 << 18)
        for _ = 1, 300 do a = a + 1 end
        print "done"]], "env -u OMP_WAIT_POLICY OMP_NUM_THREADS=2", "; echo $?"))
    end
  end)

  it("loads parts when they are first used", function()
    assert.are.equal("false\ttrue\tfalse\n", run [[
      local optlua = require "optlua"
      local before = package.loaded["optlua.options"] ~= nil
      local _ = optlua.options
      print(before, package.loaded["optlua.options"] == optlua.options, (pcall(function() return optlua.no_such_part end)))]])
  end)
end)
