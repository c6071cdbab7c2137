-- The helps for users' tests: each passes, and fails as it says.
local optlua = require "optlua"
local files = require "files"
local testing = optlua.testing
local nn, optim, data, tensor = optlua.nn, optlua.optim, optlua.data, optlua.tensor

local fails = require("fails").containing

describe("testing.allclose", function()
  it("passes for tensors that are close", function()
    testing.allclose(tensor { 1, 2 }, tensor { 1 + 1e-6, 2 })
    testing.allclose(tensor { 1, 2 }, tensor { 1.5, 2 }, { atol = 0.5 })
    testing.allclose(optlua.zeros(0, 3), optlua.zeros(0, 3))
    testing.allclose(tensor({ 1, 2 }, { requires_grad = true }), tensor { 1, 2 })
  end)

  it("fails for others, and says by how much", function()
    fails("testing.allclose: they differ by up to 0.5:\ntensor([1., 2.])\ntensor([1.0000, 2.5000])", testing.allclose, tensor { 1, 2 }, tensor { 1, 2.5 })
    fails("they differ", testing.allclose, tensor { 1 }, tensor { 0 / 0 })
    fails("they differ", testing.allclose, tensor { 1 }, tensor { 1 + 1e-4 }, { rtol = 1e-6 })
    fails("testing.allclose: float32 (2) and float32 (1, 2)", testing.allclose, tensor { 1, 2 }, tensor { { 1, 2 } })
    fails("testing.allclose: float32 (1) and float64 (1)", testing.allclose, tensor { 1 }, tensor({ 1 }, { dtype = "float64" }))
    fails("testing.allclose: a tensor expected, got a number", testing.allclose, 1, tensor { 1 })
    fails('unknown option "tol"', testing.allclose, tensor { 1 }, tensor { 1 }, { tol = 1 })
    fails("rtol", testing.allclose, tensor { 1 }, tensor { 1 }, { rtol = -1 })
  end)
end)

describe("testing.same_bits", function()
  it("passes for the same bits", function()
    testing.same_bits(tensor { 1, 0 / 0, 1 / 0, -0.0 }, tensor { 1, 0 / 0, 1 / 0, -0.0 })
    testing.same_bits(optlua.arange(6):reshape(2, 3):t(), optlua.arange(6):reshape(2, 3):t():contiguous())
    testing.same_bits(tensor(5), tensor(5))
    testing.same_bits(optlua.ones(2):to "bfloat16", optlua.ones(2):to "bfloat16")
  end)

  it("fails where one differs, and says which", function()
    fails("testing.same_bits: element 2: 0.10000000149011612 and 0.10000000894069672", testing.same_bits, tensor { 1, 0.1 }, tensor { 1, 0.1 + 1e-8 })
    fails("element 1: 0 and -0", testing.same_bits, tensor { 0.0 }, tensor { -0.0 })
    fails("element 3", testing.same_bits, tensor { 0, 0, 0 / 0 }, tensor { 0, 0, 1 })
    fails("testing.same_bits: int64 (1) and float32 (1)", testing.same_bits, optlua.arange(1), tensor { 0 })
    fails("testing.same_bits: a tensor expected, got a table", testing.same_bits, { 1 }, tensor { 1 })
  end)
end)

describe("testing.groups_are", function()
  local optimizer = optim.container(nn.Linear(2, 2), { { name = "b", match = "*.bias", class = optim.SGD, lr = 1 },
    { name = "w", match = "*", class = optim.SGD, lr = 1 } })

  it("passes for these groups", function()
    testing.groups_are(optimizer, { w = { "weight" }, b = { "bias" } })
    testing.groups_are(optim.SGD(nn.Linear(2, 2), { lr = 1 }), { default = { "weight", "bias" } })
  end)

  it("fails for others, and names all that differs", function()
    fails("testing.groups_are: group b has bias, not bias weight; group w is there, with weight; there is no group c",
      testing.groups_are, optimizer, { b = { "bias", "weight" }, c = { "weight" } })
    fails("group default has weight bias, not bias weight", testing.groups_are, optim.SGD(nn.Linear(2, 2), { lr = 1 }), { default = { "bias", "weight" } })
    fails("testing.groups_are: an optimizer expected", testing.groups_are, {}, {})
    fails("an optimizer expected; that of a spec is in its result", testing.groups_are, optlua.spec { name = "x" }, {})
    fails("testing.groups_are: b: a list of names expected, got a string", testing.groups_are, optimizer, { b = "bias" })
    fails("groups with names of parameters expected, got a nil", testing.groups_are, optimizer)
  end)
end)

describe("testing.loss_falls", function()
  local function spec(more)
    local fields = { name = "points", config = { epochs = 1, batch_size = 64, optimizer = { class = "SGD", lr = 0.5 } },
      build_model = function() return nn.Linear(4, 3) end, build_data = function() return testing.points() end,
      build_loss = function() return nn.CrossEntropyLoss() end }
    for key, value in pairs(more or {}) do fields[key] = value end
    return optlua.spec(fields)
  end

  it("passes where it falls, over as many updates as it is told", function()
    assert.equal(20, testing.loss_falls(spec()).steps)
    assert.equal(8, testing.loss_falls(spec(), { steps = 8, optimizer = { lr = 0.1 } }).steps)
    assert.equal(2, testing.loss_falls(spec(), { epochs = 2 }).steps)
  end)

  it("fails where it does not", function()
    fails("testing.loss_falls: it went from", testing.loss_falls, spec(), { optimizer = { lr = 0 } })
    fails("testing.loss_falls: it went from", testing.loss_falls, spec { train_step = function(state, batch, default)
      return default(state, batch) * (state.step + 1)
    end })
    fails("testing.loss_falls: there were 1 updates", testing.loss_falls, spec(), { steps = 1 })
    fails("nan at update 0", testing.loss_falls, spec { train_step = function(state, batch, default) return default(state, batch) * (0 / 0) end })
    fails('unknown option "optimiser"', testing.loss_falls, spec(), { optimiser = {} })
    fails("testing.loss_falls: a spec expected, got a nil", testing.loss_falls)
  end)
end)

describe("testing.load", function()
  it("gives what a script returns, untrained, with its arguments and its own modules", function()
    files.with_folder(function(folder)
      files.write(folder .. "/testing_neighbour.lua", "return { rate = 0.25 }")
      files.write(folder .. "/script.lua", [[
        local optlua = require "optlua"
        local neighbour = require "testing_neighbour"
        return optlua.spec { name = (...) or "none", config = { steps = 1, optimizer = { class = "SGD", lr = neighbour.rate } } }
      ]])
      local before = package.path
      local loaded = testing.load(folder .. "/script.lua", "named")
      assert.same({ "named", 0.25 }, { loaded.name, loaded.config.optimizer.lr })
      assert.equal("none", testing.load(folder .. "/script.lua").name)
      package.path, package.loaded.testing_neighbour = before, nil
    end)
  end)

  it("finds a script beside the test that asks, from wherever it runs", function()
    files.with_folder(function(folder)
      files.write(folder .. "/beside.lua", "return 'found'")
      files.write(folder .. "/ask.lua", "local name = ... return require('optlua').testing.load(name), nil")
      local ask = assert(loadfile(folder .. "/ask.lua"))
      assert.equal("found", (ask "beside.lua"))
      fails("cannot open nowhere.lua", ask, "nowhere.lua")
    end)
  end)

  it("says what is wrong with a script", function()
    fails("testing.load: cannot open nowhere.lua", testing.load, "nowhere.lua")
    files.with_bytes("x = = 1", function(path) fails("unexpected symbol near '='", testing.load, path) end)
    fails("testing.load: a path expected, got a nil", testing.load)
  end)
end)

describe("testing.output", function()
  it("gives what is printed, and lets errors through", function()
    assert.equal("a\t1\nbc2", testing.output(function(...)
      print(...)
      io.write("b", "c", 2)
    end, "a", 1))
    local write = io.write
    fails("broken", testing.output, function() error "broken" end)
    assert.equal(write, io.write)
    assert.equal("", testing.output(function() end))
  end)

  it("runs plain scripts with words of a command line", function()
    files.with_bytes([[
      local config = require("optlua").config { steps = 1, name = "x" }
      require("optlua").models.register("testing_output", {}, function() end)
      for step = 1, config.steps do print(config.name, step) end
    ]], function(path)
      local arg_before = _G.arg
      assert.equal("x\t1\n", testing.output(testing.load, path))
      assert.equal("y\t1\ny\t2\n", testing.output(testing.load, path, "--steps=2", "--name", "y"))
      fails('unknown option "stops"', testing.output, testing.load, path, "--stops=2")
      assert.equal(arg_before, _G.arg)
      optlua.models.unregister "testing_output"
    end)
  end)
end)

describe("testing.points", function()
  it("are the same for the same seed, and leave the generator as it was", function()
    optlua.manual_seed(5)
    local wanted = optlua.randn(3)
    optlua.manual_seed(5)
    local a, b, c = testing.points(), testing.points(), testing.points { seed = 1, n = 10, features = 2, classes = 5 }
    testing.same_bits(wanted, optlua.randn(3))
    assert.same({ 64, 10 }, { a.n, c.n })
    local loader = function(set) return data.loader(set, { batch_size = 100, shuffle = false }):batches()() end
    local x, y = loader(a)
    testing.same_bits(x, (loader(b)))
    assert.same({ { 64, 4 }, { 64 }, "int64" }, { x.shape, y.shape, y.dtype })
    assert.is_true(y:max():item() <= 2 and y:min():item() >= 0)
    fails('unknown option "count"', testing.points, { count = 5 })
    fails("classes", testing.points, { classes = 1 })
  end)
end)

it("optlua.testing names what it has", function()
  fails("points", function() return testing.pionts end)
end)
