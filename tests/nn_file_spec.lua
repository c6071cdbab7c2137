-- Modules in safetensors files.
local optlua = require "optlua"
local process = require "process"
local fails = require "fails"
local nn, safetensors = optlua.nn, optlua.safetensors

local containing = fails.containing
local fixture = "tests/golden/safetensors/tied.safetensors"

local Tied = nn.class "Tied"
function Tied:init()
  self.embedding = nn.Embedding(4, 3)
  self.head = nn.Linear(3, 4, { bias = false })
  self.head.weight = self.embedding.weight
end

local Net = nn.class "Net"
function Net:init(width, dtype)
  self.fc = nn.Linear(3, width or 2, { dtype = dtype })
  self:register_buffer("count", optlua.tensor(0, "int64"))
  self:register_buffer("scratch", optlua.zeros(5), { persistent = false })
end

-- All values of a module's state, as Lua tables.
local function values(model)
  local result = {}
  for name, tensor in pairs(model:state_dict()) do result[name] = tensor:totable() end
  return result
end

local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

describe("module:save and module:load", function()
  it("bring parameters and buffers into another module of the kind", function()
    local a, b = Net(), Net()
    optlua.no_grad(function() a.count:fill_(7) end)
    a:save(path, { step = "7" })
    local weight = b.fc.weight
    local report, metadata = b:load(path)
    assert.are.same({ missing = {}, unexpected = {} }, report)
    assert.are.same({ step = "7" }, metadata)
    assert.are.same(values(a), values(b))
    assert.are.equal(weight, b.fc.weight) -- optimizers keep what they hold
    assert.is_true(b.fc.weight.requires_grad)
    local names = {}
    for i, entry in ipairs(safetensors.list(path)) do names[i] = entry.name end
    assert.are.same({ "count", "fc.bias", "fc.weight" }, names)
  end)

  it("can save to the file that was loaded", function()
    local a = Net()
    a:save(path)
    local before = process.read(path)
    a:load(path)
    a:save(path)
    assert.are.equal(before, process.read(path))
  end)

  it("tell backward that parameters have changed", function()
    local a = nn.Linear(2, 2)
    a:save(path)
    local x = optlua.ones({ 1, 2 }, { requires_grad = true })
    local y = a(x):sum()
    a:load(path)
    containing("in place", y.backward, y)
  end)

  it("list all differences at once and change nothing", function()
    local a = Net()
    local state = a:state_dict()
    state["fc.weight"] = optlua.zeros(2, 4)
    state["fc.bias"] = optlua.zeros(2):to "float64"
    state.extra, state.more, state.count = optlua.zeros(1), optlua.zeros(1), nil
    optlua.save(path, state)
    local before = values(a)
    local message = containing(("Net: %s does not fit; nothing was loaded"):format(path), a.load, a, path)
    for _, line in ipairs {
      "missing: count", "unexpected: extra, more", "differing: fc.weight: float32 (2, 3) expected, got float32 (2, 4)",
      'differing: fc.bias: float32 (2) expected, got float64 (2); dtype = "float32" converts',
    } do assert.is_truthy(message:find(line, 1, true), line) end
    assert.are.same(before, values(a))
    containing("differing: fc.weight", a.load, a, path, { strict = false })
    assert.are.same(before, values(a))
    assert.matches("^tests/nn_file_spec.lua:%d+: ", message == "" or fails.matching("Net", function() a:load(path) end))
  end)

  it("allow missing and unexpected names where strict is false, and report them", function()
    local a = Net()
    optlua.save(path, { ["fc.bias"] = optlua.full({ 2 }, 5), extra = optlua.zeros(1) })
    local weight = a.fc.weight:totable()
    local report = a:load(path, { strict = false })
    assert.are.same({ missing = { "count", "fc.weight" }, unexpected = { "extra" } }, report)
    assert.are.same({ { 5, 5 }, weight }, { a.fc.bias:totable(), a.fc.weight:totable() })
  end)

  it("rename by a function or a table", function()
    local a, b = Net(), Net()
    local state = {}
    for name, tensor in pairs(a:state_dict()) do state["model." .. name] = tensor end
    optlua.save(path, state)
    b:load(path, { rename = function(name) return (name:gsub("^model%.", "")) end })
    assert.are.same(values(a), values(b))
    b = Net()
    b:load(path, { rename = { ["model.fc.weight"] = "fc.weight", ["model.fc.bias"] = "fc.bias", ["model.count"] = "count" } })
    assert.are.same(values(a), values(b))
    optlua.save(path, { ["fc.weight"] = a.fc.weight, ["fc.bias"] = a.fc.bias, count = a.count, old = optlua.zeros(9) })
    b:load(path, { rename = { old = false } })
    local report = b:load(path, { rename = function(name) if name ~= "fc.bias" and name ~= "old" then return nil end return false end, strict = false })
    assert.are.same({ missing = { "fc.bias" }, unexpected = {} }, report)
    containing('has no tensor "odl"', b.load, b, path, { rename = { odl = false } })
    containing('"fc.bias" and "old" both become "fc.bias"', b.load, b, path, { rename = { old = "fc.bias" } })
    containing('a name or false expected for "count", got number', b.load, b, path, { rename = function() return 1 end })
    containing("rename", b.load, b, path, { rename = "x" })
    containing("oh no", b.load, b, path, { rename = function() error "oh no" end })
  end)

  it("convert dtypes on request only", function()
    local a, b = Net(), Net(2, "float64")
    a:save(path)
    containing('fc.weight: float64 (2, 3) expected, got float32 (2, 3); dtype = "float64" converts', b.load, b, path)
    b:load(path, { dtype = "float64" })
    assert.are.same(a.fc.weight:totable(), b.fc.weight:totable())
    assert.are.equal("int64", b.count.dtype)
    optlua.save(path, { weight = optlua.tensor { { 1, 2 } }:to "bfloat16", bias = optlua.tensor { 0.5 }:to "bfloat16" })
    local c = nn.Linear(2, 1)
    containing('weight: float32 (1, 2) expected, got bfloat16 (1, 2); dtype = "float32" converts', c.load, c, path)
    c:load(path, { dtype = "float32" })
    assert.are.same({ { 1, 2 } }, c.weight:totable())
    local d = nn.Linear(1, 1)
    local message = containing("differing: bias", d.load, d, "tests/golden/safetensors/others.safetensors", {
      rename = function(name) return name == "F16" and "bias" or nil end, strict = false,
    })
    assert.matches('got F16 %(%d+%); F16 must be converted: dtype = "float32"', message)
  end)

  it("write a tied parameter once, and load it by any of its names", function()
    local a, b = Tied(), Tied()
    a:load(fixture)
    assert.are.same({ 0, 1, 2 }, a.embedding.weight[1]:totable())
    assert.are.equal(a.embedding.weight, a.head.weight)
    a:save(path)
    assert.are.equal(process.read(fixture), process.read(path))
    for _, name in ipairs { "embedding.weight", "head.weight" } do
      optlua.save(path, { [name] = optlua.full({ 4, 3 }, 3) })
      b:load(path)
      assert.are.equal(3, b.head.weight[4][3]:item())
    end
    optlua.save(path, { ["embedding.weight"] = optlua.full({ 4, 3 }, 4), ["head.weight"] = optlua.full({ 4, 3 }, 4) })
    b:load(path)
    assert.are.equal(4, b.head.weight[4][3]:item())
    optlua.save(path, { ["embedding.weight"] = optlua.full({ 4, 3 }, 5), ["head.weight"] = optlua.full({ 4, 3 }, 6) })
    containing("head.weight: is tied to embedding.weight, but differs from it in the file", b.load, b, path)
    assert.are.equal(4, b.head.weight[4][3]:item())
    optlua.save(path, {})
    containing("missing: embedding.weight, head.weight", b.load, b, path)
    b:load(fixture, { rename = { ["head.weight"] = false } })
  end)

  it("load both of what is tied in the file, but not in the model", function()
    local a = nn.Sequential { nn.Embedding(4, 3), nn.Linear(3, 4, { bias = false }) }
    a:load(fixture, { rename = { ["embedding.weight"] = "0.weight", ["head.weight"] = "1.weight" } })
    assert.is_true(a[1].weight:equal(a[2].weight))
    optlua.no_grad(function() a[1].weight:fill_(0) end)
    assert.are.equal(11, a[2].weight[4][3]:item())
  end)

  it("change nothing when the file is damaged", function()
    local a = Net()
    a:save(path)
    local b, bytes = Net(), process.read(path)
    local before = values(b)
    process.write(path, bytes:sub(1, -2))
    containing("the file is too short", b.load, b, path)
    process.write(path, "PK\3\4 and so on")
    containing("it is a pickle", b.load, b, path)
    assert.are.same(before, values(b))
  end)

  it("check their arguments", function()
    local a = Net()
    containing("unknown option \"stirct\"", a.load, a, path, { stirct = false })
    containing("metadata: strings by name expected", a.save, a, path, { epoch = 3 })
    containing("a path: string expected, got nil", a.save, a)
    containing("cannot bear the name of a module's method", function() a.load = nn.Linear(1, 1) end)
  end)
end)
