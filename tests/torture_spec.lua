-- Every function and method that is bound, called with arguments that make no sense: each call must
-- return or raise a message; nothing may crash, and nothing be left behind.
local optlua = require "optlua"
local core = require "optlua.core"
local samples = require "samples"

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

-- These change the process.
local apart = { set_num_threads = true, fail_allocations = true, poison_memory = true, limit_memory = true, set_library = true }

-- These write files or folders, or hold them: they get names in a scratch folder, so that nothing else is touched.
local on_files = {
  npy_save = true, npy_load = true, png_write = true, safetensors_write = true, make_folder = true, write_file = true,
  exchange = true, resolve = true, lock = true, lock_folder = true, events_create = true, sync = true, folder_list = true, checksum = true,
}

local scratch = os.tmpname()
os.remove(scratch)
core.hidden.make_folder(scratch)

--- A name in the scratch folder: a file, a folder, nothing, what cannot be, or nonsense behind it.
local function path()
  local names = { "a", "b", "a/b", "", "/", "/.", "c/d", "x.npy", "x.png", ("n"):rep(300), "nul\0byte", "a\n" }
  return scratch .. "/" .. names[random(#names)]
end

--- Arguments of one call. Of functions on files, none may name anything but the scratch folder.
local function arguments(name)
  local count, given = random(5) - 1, {}
  for i = 1, count do
    given[i] = makers[random(#makers)]()
    if on_files[name] and (type(given[i]) == "string" or random(2) == 1 and i < 3) then given[i] = path() end
  end
  return count, given
end

local function torment(name, fn, rounds, first)
  if apart[name] then return end
  for _ = 1, on_files[name] and 3 * rounds or rounds do
    local count, given = arguments(name)
    if first then
      count = count + 1
      table.insert(given, 1, first())
    end
    local ok, message = pcall(fn, table.unpack(given, 1, count))
    if not ok then assert.are.equal("string", type(message), name) end
  end
  optlua.set_printoptions { profile = "default" }
end

-- Numbers that are legal for many arguments and weigh much, or nothing.
local weighty = { 0, 1, -1, 2, 3, 5, 64, 1000, 1 << 15, (1 << 28) - 2, (1 << 29) - 1, (1 << 30) - 2, (1 << 31) - 1, 1 << 33,
  1 << 62, math.maxinteger, math.mininteger }

--- A tensor like another, with one dimension of size 0, 1 or 2, of any stride.
local function resized(tensor)
  local shape, d = tensor.shape, random(math.max(1, tensor.ndim))
  if #shape == 0 then return optlua.zeros(random(3) - 1) end
  shape[d] = random(3) - 1
  return optlua.ones(shape, { dtype = tensor.dtype, requires_grad = tensor.requires_grad })
end

--- Changes some values of a table of arguments: numbers become weighty ones, or lists of two of them;
--- tensors lose a dimension's elements; texts become others.
local function spoil(given, within)
  local keys = {}
  for key in pairs(given) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _ = 1, random(3) do
    local key = keys[random(math.max(1, #keys))]
    local value = given[key]
    if math.type(value) == "integer" then
      local function number() return weighty[random(#weighty)] end
      given[key] = (within or random(2) == 1) and number() or { number(), number() }
    elseif type(value) == "number" then
      given[key] = ({ 0, 1, -1, 0.5, 1e-300, 1e300, 1 / 0, 0 / 0 })[random(8)]
    elseif optlua.is_tensor(value) then
      if random(2) == 1 then given[key] = resized(value) end
    elseif type(value) == "table" and not within then
      spoil(value, #value > 0)
    elseif type(value) == "boolean" then
      given[key] = not value
    end
  end
end

--- Names the optional arguments of an op that a sample leaves out.
local function with_options(op, given)
  local last = given[#given]
  if type(last) ~= "table" or optlua.is_tensor(last) or #last > 0 then
    last = {}
    given[#given + 1] = last
  end
  for p = #given, #op.params do
    local param = op.params[p]
    if (param.kind == "data" or param.kind == "sizes" or param.kind == "dims") and random(2) == 1 then
      last[param.name] = param.kind == "data" and 1 or { 1, 1 }
    end
  end
end


--- Calls an op, forward and backward, with a sample that is nearly as it should be.
local function nearly(op, given)
  with_options(op, given)
  spoil(given)
  local ok, message = pcall(function()
    local outputs = samples.call(op, given)
    for _, output in ipairs(samples.tensors(outputs)) do
      if output:numel() > 1 << 16 then return end -- a view that repeats few elements
    end
    samples.backward(outputs)
  end)
  if not ok then assert.are.equal("string", type(message), op.name) end
end

--- The names in a folder, to see that nothing is added.
local function listing(folder)
  local names = {}
  for _, entry in ipairs(core.hidden.folder_list(folder)) do names[#names + 1] = entry.name end
  table.sort(names)
  return names
end

local before_files = listing "."

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

  it("that is nearly sense is survived by all ops", function()
    core.hidden.limit_memory(1 << 24)
    for _, family in ipairs(core.registry()) do
      for _, op in ipairs(family.ops) do
        if op.samples then
          for _ = 1, 4 do
            for _, given in ipairs(samples.of(op, "float32")) do nearly(op, given) end
          end
        end
      end
    end
    core.hidden.limit_memory(0)
  end)

  it("of files stays in its folder", function()
    assert.same(before_files, listing "." )
    os.execute(("rm -r '%s'"):format(scratch))
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
