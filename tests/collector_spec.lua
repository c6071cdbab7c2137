-- Dropped tensors are collected in time, without anybody asking.
local optlua = require "optlua"
local core = require "optlua.core"

local MIB = 1 << 20

-- The most bytes that were alive, above those before, while fn ran n times.
local function peak(n, fn)
  collectgarbage()
  collectgarbage()
  local before, most = core.hidden.memory().live_bytes, 0
  for i = 1, n do
    fn(i)
    if i % 8 == 0 then most = math.max(most, core.hidden.memory().live_bytes) end
  end
  return most - before
end

local function in_mode(mode, fn)
  local old = collectgarbage(mode)
  local ok, message = pcall(fn)
  collectgarbage(old)
  if not ok then error(message, 0) end
end

for _, mode in ipairs { "incremental", "generational" } do
  describe("in " .. mode .. " mode", function()
    it("10,000 dropped tensors of 10,000 doubles stay bounded", function()
      in_mode(mode, function()
        local most = peak(10000, function() return optlua.empty(10000, { dtype = "float64" }) end)
        assert.is_true(most < 100 * MIB, most / MIB)
      end)
    end)

    it("results that live through two collections stay bounded", function()
      in_mode(mode, function()
        local a = optlua.ones(MIB // 4)
        local t
        local most = peak(250, function() t = a + a end)
        assert.are.equal(2, t[1]:item())
        assert.is_true(most < 100 * MIB, most / MIB)
      end)
    end)

    it("graphs stay bounded", function()
      in_mode(mode, function()
        local w = optlua.ones(MIB // 4, { requires_grad = true })
        local most = peak(150, function(i)
          local y = (w * w):sum()
          if i % 2 == 0 then y:backward() end
        end)
        assert.is_true(most < 100 * MIB, most / MIB)
      end)
    end)

    it("a large heap of Lua's own changes only how often it is traversed", function()
      in_mode(mode, function()
        local heap = {}
        for i = 1, 100000 do heap[i] = { i } end
        local most = peak(200, function() return optlua.empty(MIB // 4) end)
        assert.is_true(most < 200 * MIB, most / MIB)
        assert.are.equal(100000, #heap)
      end)
    end)
  end)
end

describe("the collector", function()
  it("stays stopped when it is stopped", function()
    collectgarbage()
    collectgarbage "stop"
    local most = peak(64, function() return optlua.empty(MIB // 4) end)
    local running = collectgarbage "isrunning"
    collectgarbage "restart"
    assert.is_false(running)
    assert.is_true(most >= 64 * MIB, most / MIB)
  end)

  it("keeps its mode", function()
    collectgarbage "generational"
    for _ = 1, 100 do optlua.empty(MIB // 4) end
    assert.are.equal("generational", collectgarbage "incremental")
    for _ = 1, 100 do optlua.empty(MIB // 4) end
    assert.are.equal("incremental", collectgarbage "incremental")
  end)

  it("may run finalizers that use tensors, in the middle of anything", function()
    local count = 0
    local kept = optlua.ones(4)
    for _ = 1, 60 do
      setmetatable({}, { __gc = function()
        count = count + 1
        local t = (kept + 1):sum()
        assert(t:item() == 8)
        debug.getmetatable(t).__gc(t)
      end })
      local a = optlua.ones(MIB // 4)
      assert.are.equal(2, (a + a)[{ { 1, 2 } }][1]:item())
    end
    collectgarbage()
    assert.are.equal(60, count)
  end)

  it("survives finalizers that release the operands", function()
    for _ = 1, 20 do
      local a, b = optlua.ones(8), optlua.ones(8)
      setmetatable({}, { __gc = function() debug.getmetatable(a).__gc(a) end })
      collectgarbage "step"
      for _ = 1, 300 do
        local ok, result = pcall(function() return (a + b):sum() + optlua.cat({ a, b }):sum() + a[{ { 1, 4 } }]:sum() end)
        if not ok then
          assert.matches("released tensor", result)
          break
        end
      end
    end
  end)

  it("keeps a process below 100 MiB that drops 20,000 tensors of 1 MiB", function()
    if os.getenv "ASAN_OPTIONS" then pending "sanitizers hold on to memory" end
    local code = [[
      local optlua = require 'optlua'
      for _ = 1, 20000 do optlua.empty(262144) end
      for line in io.lines '/proc/self/status' do
        local kib = line:match 'VmHWM:%s*(%d+)'
        if kib then print(kib) end
      end]]
    local pipe = assert(io.popen(('%s -e "%s"'):format(os.getenv "OPTLUA", code)))
    local kib = tonumber(pipe:read "a")
    pipe:close()
    assert.is_true(kib < 100 * 1024, kib)
  end)
end)
