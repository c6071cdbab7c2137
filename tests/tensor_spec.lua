-- Tensors as Lua values: making them, looking at them, life and death, wrong use.
local optlua = require "optlua"
local core = require "optlua.core"
local tensor = optlua.tensor

local fails = require("fails").matching

describe("optlua.tensor", function()
  it("reads nested tables", function()
    local t = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    assert.are.same({ 2, 3 }, t.shape)
    assert.are.equal("float32", t.dtype)
    assert.are.same({ { 1, 2, 3 }, { 4, 5, 6 } }, t:totable())
    assert.are.same({ 1, 1, 1, 1, 1, 1, 1, 1 }, tensor({ { { { { { { { 7 } } } } } } } }).shape)
  end)

  it("reads numbers, booleans, tensors", function()
    assert.are.equal(0, tensor(3).ndim)
    assert.are.equal(3.0, tensor(3):item())
    assert.are.equal("uint8", tensor({ true, false }).dtype)
    assert.are.same({ 1, 0 }, tensor({ true, false }):totable())
    assert.are.equal(1, tensor(true):item())
    local source = tensor { 1, 2 }
    local copy = tensor(source, { dtype = "float64" })
    copy[1] = 9
    assert.are.same({ 1, 2 }, source:totable())
    assert.are.equal("float64", copy.dtype)
  end)

  it("keeps integers exact", function()
    local t = tensor({ math.maxinteger, math.mininteger, 2 ^ 53 }, { dtype = "int64" })
    assert.are.same({ math.maxinteger, math.mininteger, 1 << 53 }, t:totable())
    assert.are.equal("integer", math.type(t[1]:item()))
    assert.are.equal("float", math.type(tensor({ 1 }):item()))
  end)

  it("reads empty tables", function()
    assert.are.same({ 0 }, tensor({}).shape)
    assert.are.same({ 2, 0 }, tensor({ {}, {} }).shape)
    assert.are.same({}, tensor({}):totable())
    assert.are.same({ {}, {} }, optlua.zeros(2, 0):totable())
  end)

  it("takes options", function()
    local t = tensor({ 1 }, { dtype = "float64", requires_grad = true })
    assert.are.equal("float64", t.dtype)
    assert.is_true(t.requires_grad)
    assert.is_true(tensor({ 1 }, "float64", true).requires_grad)
    assert.is_true(optlua.zeros(2, { requires_grad = true }).requires_grad)
    assert.is_true(optlua.ones_like(tensor { 1 }, { requires_grad = true }).requires_grad)
  end)

  it("says where a table is not rectangular", function()
    fails("tensor: %[2%] has length 1 where 2 was expected", tensor, { { 1, 2 }, { 3 } })
    fails("%[2%]%[1%] has length 2 where 1", tensor, { { { 1 }, { 2 } }, { { 3, 4 }, { 5 } } })
    fails("%[2%]: number expected, got table", tensor, { 1, { 2 } })
    fails("%[2%]: list expected, got 2", tensor, { { 1 }, 2 })
    fails('%[1%]%[2%]: number expected, got string', tensor, { { 1, "2" } })
    fails("%[3%]: number expected, got boolean", tensor, { 1, 2, true })
    fails("%[2%]: boolean expected, got 1", tensor, { true, 1 })
    fails("gaps", tensor, { 1, nil, 3 })
    fails("value has the key x", tensor, { 1, x = 2 })
    fails("%[1%] has the key 1.5", tensor, { { 1, [1.5] = 2 } })
    fails("stack and cat join tensors", tensor, { tensor { 1 } })
    fails("nested more than 8 deep", tensor, { { { { { { { { { 1 } } } } } } } } })
    local loop = {}
    loop[1] = loop
    fails("nested more than 8 deep", tensor, loop)
  end)

  it("refuses what does not fit the dtype", function()
    for _, bad in ipairs { 1.5, 0 / 0, 2 ^ 63, 1 / 0 } do
      fails("%[1%]: integer expected", tensor, { bad }, { dtype = "int64" })
    end
    fails("integer from 0 to 255 expected, got 256", tensor, { 256 }, { dtype = "uint8" })
    fails("integer from 0 to 255 expected, got %-1", tensor, { -1 }, { dtype = "uint8" })
    assert.are.equal(16, tensor({ 16.0 }, { dtype = "int64" }):item())
    fails("only float32 and float64 tensors have gradients", tensor, { 1 }, { dtype = "int64", requires_grad = true })
  end)

  it("refuses what is no data", function()
    fails("value: number expected, got string", tensor, "x")
    fails("value: number expected, got function", tensor, print)
    fails("argument 1 %(data%): value expected, got no value", tensor)
    fails('unknown dtype "float23" %(did you mean "float32"%?%); legal: uint8', tensor, { 1 }, { dtype = "float23" })
    fails('unknown option "dtpye" %(did you mean "dtype"', tensor, { 1 }, { dtpye = "int64" })
    fails("at most 3 arguments", tensor, { 1 }, "int64", false, 4)
  end)
end)

describe("a tensor", function()
  it("tells about itself", function()
    local t = optlua.zeros(2, 3, { dtype = "float64" })
    assert.are.same({ 2, 3 }, t.shape)
    assert.are.same({ 2, 3 }, t:size())
    assert.are.equal(3, t:size(2))
    assert.are.equal(3, t:size(-1))
    assert.are.equal(2, t.ndim)
    assert.are.equal(2, t:dim())
    assert.are.equal(2, #t)
    assert.are.equal(6, t:numel())
    assert.are.same({ 3, 1 }, t:stride())
    assert.are.equal(1, t:t():stride(1))
    assert.are.same({ 3, 2 }, t.T.shape)
    assert.is_true(t:is_contiguous())
    assert.is_false(t:t():is_contiguous())
    assert.is_true(t.is_leaf)
    assert.is_nil(t.grad)
    assert.is_nil(t.grad_fn)
    assert.is_true(t:is_floating_point())
    assert.is_true(optlua.is_tensor(t))
    assert.is_false(optlua.is_tensor { 1 })
  end)

  it("gives a fresh shape each time", function()
    local t = optlua.zeros(2, 3)
    t.shape[1] = 9
    assert.are.same({ 2, 3 }, t.shape)
  end)

  it("is a key, and equal only to itself", function()
    local a, b = tensor { 1 }, tensor { 1 }
    local set = { [a] = "a", [b] = "b" }
    assert.are.equal("a", set[a])
    assert.is_false(a == b)
    assert.is_true(rawequal(a, a:contiguous()))
    assert.is_true(rawequal(a, a:to "float32"))
    assert.is_true(rawequal(a, a:add_(1)))
  end)

  it("has one userdata while that is alive", function()
    local w = optlua.ones(2, { requires_grad = true })
    w:sum():backward()
    assert.is_true(rawequal(w.grad, w.grad))
    local seen = { [w.grad] = true }
    collectgarbage()
    assert.is_true(seen[w.grad])
    seen[w.grad] = nil
    collectgarbage()
    assert.are.same({ 1, 1 }, w.grad:totable())
  end)

  it("has no order, and says which methods have", function()
    local a = tensor { 1 }
    fails("use :lt or :gt", function() return a < a end)
    fails("use :lt or :gt", function() return a > 1 end)
    fails("use :le or :ge", function() return a <= a end)
    fails("use :le or :ge", function() return 1 >= a end)
  end)

  it("raises Lua's own clear errors for other operators", function()
    local a = tensor { 1 }
    fails("t:item%(%) is its number, tostring%(t%) its text", function() return a .. "x" end)
    fails("t:item%(%) is its number", function() return "loss " .. a end)
    fails("attempt to call a tensor value", function() return a() end)
    fails("attempt to perform bitwise operation on a tensor value", function() return a ~ a end)
  end)

  it("has a length only with a dimension", function()
    fails("0 dimensions has no length", function() return #tensor(1) end)
    fails("0 dimensions has none", function() return tensor(1):size(1) end)
    assert.are.same({}, tensor(1):size())
  end)

  it("hands out its sizes as a list that prints as a shape", function()
    local x = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    assert.are.equal("(2, 3) (2, 3) (3, 1) ()", ("%s %s %s %s"):format(x.shape, x:size(), x:stride(), tensor(1).shape))
    assert.are.equal("2x3", table.concat(x.shape, "x"))
    assert.are.same({ 2, 3 }, x.shape)
    assert.are.equal(2, #x.shape)
    assert.is_false(getmetatable(x.shape))
  end)

  it("says what stands for a name of PyTorch's", function()
    local x = tensor { 1 }
    for name, wanted in pairs { float = ':to "float32"', long = ':to "int64"', tolist = "totable", half = "bfloat16", cuda = "CPU",
      device = "CPU", numpy = "totable" } do
      fails('unknown field "' .. name .. '"; here: .*' .. wanted, function() return x[name] end)
    end
    fails('to: unknown dtype "cuda" %(here: everything is in the memory of the CPU', x.to, x, "cuda")
    fails('unknown dtype "half" %(here: .*bfloat16', optlua.zeros, 2, { dtype = "half" })
    fails("optlua.einsum does not exist; here: matmul", function() return optlua.einsum end)
    fails("optim.AveragedModel does not exist; here: .*ema", function() return optlua.optim.AveragedModel end)
    fails("optim.adamw does not exist %(did you mean AdamW%?%)", function() return optlua.optim.adamw end)
    fails("data.DataLoader does not exist; here: data.loader", function() return optlua.data.DataLoader end)
    fails("transforms.ToTensor does not exist; here: ToFloat", function() return optlua.data.transforms.ToTensor end)
  end)

  it("names an unknown field", function()
    fails('unknown field "shpae" %(did you mean "shape"%?%)', function() return tensor({ 1 }).shpae end)
    fails('unknown field "reshap" %(did you mean "reshape"%?%)', function() return tensor({ 1 }):reshap(1) end)
    fails('"shape" cannot be set', function() tensor({ 1 }).shape = {} end)
    fails('"colour" cannot be set', function() tensor({ 1 }).colour = 1 end)
  end)

  it("gives one element", function()
    assert.are.equal(2.5, tensor({ { 2.5 } }):item())
    fails("item: a tensor of one element expected, got shape %(2%)", function() tensor({ 1, 2 }):item() end)
  end)

  it("compares", function()
    local a = tensor { 1, 2, 0 / 0 }
    assert.is_false(a:allclose(a))
    assert.is_true(a:allclose(a, { equal_nan = true }))
    assert.is_true(tensor({ 1 }):allclose(tensor { 1.1 }, { atol = 0.2 }))
    assert.is_false(tensor({ 1 }):allclose(tensor { 1.1 }))
    assert.is_true(tensor({ 1 / 0 }):allclose(tensor { 1 / 0 }))
    assert.is_false(tensor({ 1 / 0 }):allclose(tensor { 1 }, { atol = 1e9 }))
    assert.is_true(tensor({ { 1, 2 }, { 3, 4 } }):t():equal(tensor { { 1, 3 }, { 2, 4 } }))
    assert.is_true(tensor({ 1 }):equal(tensor({ 1 }, "float64")))
    assert.is_false(tensor({ 1 }):equal(tensor { 1, 1 }))
    local big = tensor({ math.maxinteger }, "int64")
    assert.is_false(big:equal(tensor({ math.maxinteger - 1 }, "int64")))
    fails("shapes %(1%) and %(2%) differ", function() tensor({ 1 }):allclose(tensor { 1, 2 }) end)
  end)

  it("splits", function()
    local t = optlua.arange(7)
    local function tables(list)
      for i, part in ipairs(list) do list[i] = part:totable() end
      return list
    end
    assert.are.same({ { 0, 1, 2 }, { 3, 4, 5 }, { 6 } }, tables(t:split(3)))
    assert.are.same({ { 0 }, { 1, 2, 3 }, {}, { 4, 5, 6 } }, tables(t:split { 1, 3, 0, 3 }))
    assert.are.same({ { 0, 1, 2 }, { 3, 4, 5 }, { 6 } }, tables(t:chunk(3)))
    assert.are.same({ 0, 1 }, tables(optlua.arange(2):unbind()))
    assert.are.same({ { 0, 2 }, { 1, 3 } }, tables(optlua.arange(4):reshape(2, 2):unbind(2)))
    assert.are.equal(1, #optlua.zeros(0):split(2))
    assert.are.same({}, optlua.zeros(0, 2):unbind())
    fails("sizes that add up to 7 expected, got 6", function() t:split { 3, 3 } end)
    fails("sizes that add up to 7 expected; entry 2 is 5", function() t:split { 3, 5 } end)
    fails("positive integer", function() t:split(0) end)
    fails("positive integer", function() t:chunk(-1) end)
    fails("0 dimensions has no parts", function() tensor(1):split(1) end)
    local view = t:split(3)[2]
    view[1] = 99
    assert.are.equal(99, t[4]:item())
  end)
end)

describe("arguments", function()
  local t = optlua.arange(6):reshape(2, 3):to "float32"

  it("come by position or by name", function()
    assert.are.same({ 3, 5, 7 }, t:sum(1):totable())
    assert.are.same({ { 3, 5, 7 } }, t:sum(1, true):totable())
    assert.are.same({ { 3, 5, 7 } }, t:sum(1, { keepdim = true }):totable())
    assert.are.same({ { 3, 5, 7 } }, t:sum({ dim = 1, keepdim = true }):totable())
    assert.are.same({ { 15 } }, t:sum(nil, true):totable())
    assert.are.equal(15, t:sum({ 1, 2 }):item())
    assert.are.same({ { 3, 5, 7 } }, optlua.sum(t, { dim = { 1 }, keepdim = true }):totable())
  end)

  it("may write out a list", function()
    assert.are.same({ 3, 2 }, t:reshape(3, 2).shape)
    assert.are.same({ 3, 2 }, t:reshape({ 3, 2 }).shape)
    assert.are.same({ 3, 2 }, t:reshape(t:t().shape).shape)
    assert.are.same({ 3, 2 }, t:permute(2, 1).shape)
    assert.are.same({ 2, 3 }, optlua.zeros(2, 3, { dtype = "int64" }).shape)
    assert.are.same({}, optlua.zeros({}).shape)
    assert.are.same({ 4 }, optlua.zeros(4).shape)
  end)

  it("are integers when they are whole", function()
    assert.are.same({ 3, 2 }, t:reshape(3.0, 2.0).shape)
    for _, bad in ipairs { 1.5, 0 / 0, 2 ^ 63 } do
      fails("argument 2 %(dim%): .*integer.* expected, got", function() t:sum(bad) end)
      fails("argument 2 %(shape%): .*integer.* expected, got", function() t:reshape(bad) end)
      fails("argument 2 %(shape%): entry 2: integer expected, got", function() t:reshape { 1, bad } end)
    end
  end)

  it("count dimensions from 1", function()
    fails("positions count from 1, got 0", function() t:sum(0) end)
    fails("positions count from 1, got 0", function() t:select(1, 0) end)
    fails("dimension 3 is out of range for a tensor of 2 dimensions", function() t:sum(3) end)
    fails("dimension %-3 is out of range", function() t:sum(-3) end)
    fails("position 4 is out of range for a size of 3", function() t:select(2, 4) end)
  end)

  it("are named in errors, with the script's line", function()
    fails("^tests/tensor_spec.lua:%d+: add: argument 2 %(other%): tensor or number expected, got string",
      function() return t + "x" end)
    fails("add: argument 1 %(self%): tensor or number expected, got no value", function() return optlua.add(nil, t) end)
    fails("add: argument 2 %(other%): tensor or number expected, got no value", function() return t:add() end)
    fails("sum: argument 1 %(self%): tensor expected, got number", function() t.sum(3) end)
    fails("sum: argument 3 %(keepdim%): boolean expected, got number", function() t:sum(1, 1) end)
    fails("sum: at most 3 arguments expected, got 5", function() t:sum(1, true, 1, 2) end)
    fails("sum: at most 3", function() t:sum(1, true, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) end)
    fails("add: shapes %(2, 3%) and %(4%) do not broadcast", function() return t + optlua.zeros(4) end)
  end)

  it("refuse unknown names, and what is given twice", function()
    fails('sum: unknown option "keepdims" %(did you mean "keepdim"%?%); legal: dim, keepdim',
      function() t:sum { keepdims = true } end)
    fails("argument 2 %(dim%): is given twice", function() t:sum(1, { dim = 1 }) end)
    fails("names of options are strings", function() t:sum(1, { keepdim = true, [5] = 1 }) end)
    fails('unknown option "requires_grad"', function() t:sum { requires_grad = true } end)
  end)

  it("refuse lists that are none", function()
    fails("at most 8 integers", function() t:reshape(1, 1, 1, 1, 1, 1, 1, 2, 3) end)
    fails("at most 8 integers", function() t:reshape { 1, 1, 1, 1, 1, 1, 1, 2, 3 } end)
    fails("a list of at least one tensor expected", function() optlua.cat {} end)
    fails("entry 2: tensor expected, got number", function() optlua.cat { t, 1 } end)
    fails("list of tensors expected, got tensor", function() optlua.cat(t) end)
    fails("dimension 1 is given twice", function() t:sum { 1, 1 } end)
  end)

  it("may be numbers where tensors stand", function()
    assert.are.same({ 3, 2 }, (4 - tensor { 1, 2 }):totable())
    assert.are.same({ 0.5, 1 }, (tensor { 1, 2 } / 2):totable())
    assert.are.same({ 2, 1 }, (2 / tensor { 1, 2 }):totable())
    assert.are.same({ 1, 0 }, (tensor { 7, 8 } % 2):totable())
    assert.are.same({ 3, 4 }, (tensor { 7, 8 } // 2):totable())
    assert.are.same({ 49, 64 }, (tensor { 7, 8 } ^ 2):totable())
    assert.are.same({ 128, 256 }, (2 ^ tensor { 7, 8 }):totable())
    assert.are.same({ -7, -8 }, (-tensor { 7, 8 }):totable())
  end)

  it("give numbers the dtype of the tensor where they fit", function()
    local i, u = tensor({ 1 }, "int64"), tensor({ 1 }, "uint8")
    assert.are.equal("int64", (i + 1).dtype)
    assert.are.equal("float32", (i + 2.5).dtype)
    assert.are.equal("float32", (i * 1.0).dtype)
    assert.are.equal("uint8", (u + 1).dtype)
    assert.are.equal(45, (u + 300):item()) -- as PyTorch: a number does not widen integers
    assert.are.equal("float64", (tensor({ 1 }, "float64") + 0.1).dtype)
    assert.are.equal(1.1, (tensor({ 1 }, "float64") + 0.1):item())
    assert.are.equal("float32", (tensor { 1 } + 0.1).dtype)
    assert.are.equal("int64", i:add_(2.0).dtype)
    assert.are.equal((1 << 53) + 3, (tensor({ (1 << 53) + 1 }, "int64") + 2):item())
  end)
end)

describe("the userdata of a tensor", function()
  local meta = debug.getmetatable(optlua.ones(1))

  it("protects its metatable", function()
    assert.are.equal("tensor", getmetatable(optlua.ones(1)))
    fails("cannot change a protected metatable", setmetatable, setmetatable({}, { __metatable = 1 }), {})
  end)

  it("can be released, twice, and then says so", function()
    local t, u = optlua.ones(2), optlua.ones(2)
    do local closed <close> = t; assert.are.equal(2, closed:numel()) end
    meta.__gc(t)
    meta.__close(t)
    fails("released tensor", function() return t + 1 end)
    fails("released tensor", function() return u + t end)
    fails("released tensor", function() return t:sum() end)
    fails("released tensor", function() return t.shape end)
    fails("released tensor", function() return #t end)
    fails("released tensor", function() return t[1] end)
    fails("released tensor", function() t[1] = 1 end)
    fails("released tensor", function() u[1] = t end)
    fails("released tensor", function() u[t] = 1 end)
    fails("released tensor", function() return u[t] end)
    fails("released tensor", function() return optlua.cat { u, t } end)
    fails("released tensor", function() t.requires_grad = true end)
    fails("released tensor", function() t:backward() end)
    fails("released tensor", function() return tensor(t) end)
    assert.are.equal("tensor (released)", tostring(t))
    assert.is_false(optlua.is_tensor(t))
  end)

  it("can be released by a finalizer while a function works on it", function()
    for _, method in ipairs { "totable", "unbind" } do
      local t = optlua.arange(90000):reshape(30000, 3)
      collectgarbage() -- a cycle that has begun would end too early
      for _ = 1, 50 do
        setmetatable({}, { __gc = function() do local closed <close> = t; assert(closed) end end })
      end
      assert.are.equal(30000, #t[method](t))
      collectgarbage()
      fails("released tensor", function() return t + 1 end)
    end
  end)

  it("keeps the memory that others look at", function()
    local t = optlua.ones(4)
    local view = t[{ { 2, 3 } }]
    meta.__gc(t)
    assert.are.same({ 1, 1 }, view:totable())
  end)

  it("is not mistaken for another userdata", function()
    for _, stranger in ipairs { io.stdout, 1, "x", {}, print, coroutine.create(print) } do
      meta.__gc(stranger)
      meta.__close(stranger)
      assert.are.equal("tensor (none)", meta.__tostring(stranger))
      for _, event in ipairs { "__index", "__newindex", "__len", "__unm" } do
        fails("tensor", meta[event], stranger, {}, 1)
      end
      fails("tensor", meta.__add, stranger, {})
    end
    for name, value in pairs(core) do
      if type(value) == "function" and name ~= "registry" then pcall(value, io.stdout, io.stdout, io.stdout) end
    end
  end)

  it("survives exchanged metatables", function()
    local file = assert(io.tmpfile())
    local own = debug.getmetatable(file)
    debug.setmetatable(file, meta)
    local t = optlua.ones(2)
    fails("tensor", function() return file:sum() end)
    fails("tensor", function() return file + t end)
    fails("tensor", function() return t + file end)
    fails("tensor", function() return file.shape end)
    assert.are.equal("tensor (none)", tostring(file))
    debug.setmetatable(file, own)
    file:close()
    debug.setmetatable(t, { __index = function() return "mine" end })
    assert.are.equal("mine", t.shape)
    assert.are.same({ 2, 2 }, (optlua.add(t, 1)):totable())
    debug.setmetatable(t, meta)
    assert.are.same({ 2 }, t.shape)
  end)

  it("leaves nothing behind", function()
    collectgarbage()
    collectgarbage()
    local before = core.hidden.memory().live_blocks
    for _ = 1, 100 do
      local t = tensor { { 1, 2 }, { 3, 4 } }
      local _ = { (t + 1):sum(), t:t()[1], t:split(1), t:totable(), tostring(t) }
      pcall(function() return t + optlua.zeros(7) end)
      pcall(tensor, { { 1, 2 }, { 3 } })
      pcall(function() return t:reshape(7) end)
    end
    collectgarbage()
    collectgarbage()
    assert.are.equal(before, core.hidden.memory().live_blocks)
  end)
end)

describe("allocations that fail", function()
  -- Fails the first allocation of fn, then the second …, until none fails: each time fn must raise or
  -- succeed, and leave nothing behind.
  local function fail_each(fn)
    collectgarbage()
    collectgarbage()
    local before = core.hidden.memory().live_blocks
    for count = 0, 200 do
      core.hidden.fail_allocations(count, false)
      local ok, message = pcall(function() fn() end)
      core.hidden.fail_allocations(-1)
      if not ok then assert.matches("out of memory", tostring(message)) end
      collectgarbage()
      collectgarbage()
      assert.are.equal(before, core.hidden.memory().live_blocks, "after " .. count .. " allocations")
      if ok then return count end
    end
    error("never succeeded")
  end

  for name, fn in pairs {
    tensor = function() return tensor { { 1, 2 }, { 3, 4 } } end,
    arithmetic = function() return (tensor { 1, 2 } + 1) * 2 end,
    index = function() local t = optlua.ones(2, 2); return t[1], t[{ {}, 1 }], t[tensor { true, false }] end,
    assign = function() local t = optlua.ones(2, 2); t[1] = 2; t[tensor { true, false }] = 3 end,
    split = function() return optlua.ones(4):split(1) end,
    backward = function()
      local w = optlua.ones(2, { requires_grad = true });
      ((w * w):sum() + w[1]):backward()
      return w.grad
    end,
    hook = function()
      local w = optlua.ones(2, { requires_grad = true })
      w:register_hook(function(g) return g * 2 end)
      w:sum():backward()
    end,
    func = function()
      local w = optlua.ones(2, { requires_grad = true })
      local f = optlua.func { name = "f", forward = function(ctx, x) ctx:save(x); return x * 2 end,
        backward = function(ctx, g) return g * ctx.saved[1] end }
      f(w):sum():backward()
    end,
    allclose = function() return optlua.ones(2):t():allclose(optlua.ones(2)) end,
  } do
    it("are survived by " .. name, function() assert.is_true(fail_each(fn) > 0) end)
  end
end)
