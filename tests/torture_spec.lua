-- Every function and method that is bound, called with arguments that make no sense: each call must
-- return or raise a message; nothing may crash, and nothing be left behind.
local optlua = require "optlua"
local core = require "optlua.core"

-- Numbers of our own, so that a failure can be repeated.
local state = tonumber(os.getenv "TORTURE_SEED") or 12345
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n + 1
end

local released = optlua.ones(2)
debug.getmetatable(released).__gc(released)

local leaf = optlua.ones(3, { requires_grad = true })
local makers = {
  function() return nil end,
  function() return true end,
  function() return false end,
  function() return random(7) - 3 end,
  function() return random(4) end,
  function() return ({ math.maxinteger, math.mininteger, 1 << 62, -(1 << 40) })[random(4)] end,
  function() return ({ 0 / 0, 1 / 0, -1 / 0, 0.5, -2.5, 2 ^ 63, 3.0 })[random(7)] end,
  function() return ({ "", "sum", "float32", "mean", "int64", "2", ("x"):rep(2000) })[random(7)] end,
  function() return {} end,
  function() return { random(4) - 2, random(4) - 2 } end,
  function() return { {}, { 1 }, "x" } end,
  function() return { keepdim = true } end,
  function() return { dim = random(5) - 3, dtype = "float64" } end,
  function() return { [random(9)] = 1, nothing = 2 } end,
  function() return { optlua.ones(2), random(2) == 1 and optlua.ones(2) or released } end,
  function() return print end,
  function() return io.stdout end,
  function() return coroutine.create(print) end,
  function() return setmetatable({}, { __index = error }) end,
  function() return released end,
  function() return leaf end,
  function() return leaf * 2 end,
  function() return optlua.ones(2, 3) end,
  function() return optlua.ones(3, 3, { dtype = "float64" }):t() end,
  function() return optlua.ones(1, 3):expand(2, 3) end,
  function() return optlua.tensor(3) end,
  function() return optlua.zeros(0, 3) end,
  function() return optlua.tensor({ 0, 1, 2 }, "int64") end,
  function() return optlua.tensor({ 7, -9, math.maxinteger }, "int64") end,
  function() return optlua.tensor { true, false, true } end,
  function() return optlua.ones(3, { dtype = "bfloat16" }) end,
  function() return optlua.zeros(1, 1, 1, 1, 1, 1, 1, 1) end,
}

-- These change the process, or touch files.
local apart = {
  set_num_threads = true, fail_allocations = true, poison_memory = true, npy_save = true, npy_load = true, png_write = true, safetensors_write = true,
  set_library = true, make_folder = true, write_file = true, exchange = true, lock = true,
}

local function torment(name, fn, rounds, first)
  if apart[name] then return end
  for _ = 1, rounds do
    local count, given = random(5) - 1, {}
    for i = 1, count do given[i] = makers[random(#makers)]() end
    if first then
      count = count + 1
      table.insert(given, 1, first())
    end
    local ok, message = pcall(fn, table.unpack(given, 1, count))
    if not ok then assert.are.equal("string", type(message), name) end
  end
  optlua.set_printoptions { profile = "default" }
end

local function tensor_maker() return makers[20 + random(#makers - 20)]() end

describe("nonsense", function()
  for _, family in ipairs(core.registry()) do
    it("is survived by " .. family.name, function()
      for _, op in ipairs(family.ops) do
        if op.module then torment(op.name, core[op.name], 60) end
        if op.hidden then torment(op.name, core.hidden[op.name], 40) end
        if op.method then
          local method = optlua.ones(1)[op.name]
          torment(op.name, method, 60, tensor_maker)
        end
        leaf.grad = nil
      end
    end)
  end

  it("is survived by operators, keys and properties", function()
    local meta = debug.getmetatable(leaf)
    for name, event in pairs(meta) do
      if type(event) == "function" and name ~= "__gc" and name ~= "__close" then
        torment(name, event, 200, tensor_maker)
        torment(name, event, 50)
      end
    end
    optlua.no_grad(function() leaf:fill_(1) end)
  end)

  it("is survived by functions and hooks", function()
    local f = optlua.func {
      name = "f",
      forward = function(ctx, ...)
        ctx:save(...)
        return makers[random(#makers)]()
      end,
      backward = function() return makers[random(#makers)](), makers[random(#makers)]() end,
    }
    torment("f", function(...) f(...):sum():backward() end, 300, tensor_maker)
    for _ = 1, 200 do
      local w = optlua.ones(3, { requires_grad = true })
      w:register_hook(function() return makers[random(#makers)]() end)
      pcall(function() (w * 2):sum():backward() end)
    end
  end)

  it("leaves nothing behind", function()
    leaf.grad = nil
    local function round()
      for _, family in ipairs(core.registry()) do
        for _, op in ipairs(family.ops) do
          if op.module then torment(op.name, core[op.name], 3) end
        end
      end
      leaf.grad = nil
      collectgarbage()
      collectgarbage()
    end
    round()
    local before = core.hidden.memory().live_blocks
    for _ = 1, 3 do round() end
    assert.is_true(core.hidden.memory().live_blocks <= before + 2) -- leaf's gradient may have memory now
  end)
end)
