-- Modules: definition order, members, state, copies, and the layers of part 1.
local optlua = require "optlua"
local nn = optlua.nn

local function names(iterator)
  local list = {}
  for name in iterator do list[#list + 1] = name end
  return list
end

local fails = require("fails").matching

local function block()
  local Block = nn.class "Block"
  function Block:init()
    self.norm = nn.LayerNorm(4)
    self.fc = nn.Linear(4, 8)
    self.proj = nn.Linear(8, 4, { bias = false })
  end
  function Block:forward(x) return x + self.proj(self.fc(self.norm(x)):gelu()) end
  return Block()
end

describe("a module", function()
  it("lists parameters in the order of definition, with full names and owners", function()
    local model = nn.Sequential { block(), nn.Linear(4, 2) }
    assert.same({ "0.norm.weight", "0.norm.bias", "0.fc.weight", "0.fc.bias", "0.proj.weight", "1.weight", "1.bias" },
      names(model:named_parameters()))
    for name, tensor, owner in model:named_parameters() do
      assert.equal(tensor, owner[name:match "[^.]+$"])
    end
    assert.equal(7, #model:parameters())
  end)

  it("visits itself and the modules below", function()
    local model = nn.Sequential { block() }
    assert.same({ "", "0", "0.norm", "0.fc", "0.proj" }, names(model:named_modules()))
    assert.same({ "0" }, names(model:named_children()))
    assert.equal("Block", model:get_submodule("0"):type())
    fails('no module is named "0.fx"; the nearest is "0.fc"', model.get_submodule, model, "0.fx")
  end)

  it("counts a tied parameter once, under its first name, and keeps the tie in copies", function()
    local Tied = nn.class "Tied"
    function Tied:init()
      self.embed = nn.Embedding(5, 3)
      self.head = nn.Linear(3, 5, { bias = false })
      self.head.weight = self.embed.weight
    end
    local model = Tied()
    assert.same({ "embed.weight" }, names(model:named_parameters()))
    assert.equal(model.embed.weight, model:get_parameter "head.weight")
    local copy = model:clone()
    assert.equal(copy.embed.weight, copy.head.weight)
    assert.not_equal(model.embed.weight, copy.embed.weight)
    local state = model:state_dict()
    assert.truthy(state["embed.weight"] and state["head.weight"])
  end)

  it("refuses what would be lost", function()
    local Bad = nn.class "Bad"
    function Bad:init(key, value) self[key] = value end
    fails("Bad.layers: a plain table of modules.*nn.ModuleList", Bad, "layers", { nn.ReLU() })
    fails("Bad.type: a member cannot bear the name of a module's method", Bad, "type", nn.ReLU())
    fails("Bad.train", Bad, "train", nn.Linear(1, 1))
    fails("Bad.a.b: the name of a member cannot contain a dot", Bad, "a.b", nn.ReLU())
    fails("item 2 is a string; a module was expected", nn.Sequential, { nn.ReLU(), "relu" })
    fails("Sequential: item 2 is nil; a module was expected", nn.Sequential, { nn.ReLU(), nil, nn.ReLU() })
    fails("ModuleList: item 1 is nil; a module was expected", nn.ModuleList, { nil, nn.ReLU() })
    fails("a list of modules expected", nn.Sequential, nn.ReLU())
    fails("got the key first", nn.Sequential, { first = nn.ReLU() })
  end)

  it("refuses to contain itself", function()
    local model = block()
    fails("Block.me: a module cannot contain itself", function() model.me = model end)
    fails("Linear.owner: a module cannot contain itself", function() model.fc.owner = model end)
    model.fc = model -- replaces a member: noticed by the walks
    fails("fc: a module cannot contain itself", model.parameters, model)
    fails("fc: a module cannot contain itself", model.state_dict, model)
  end)

  it("notices a member that became something else", function()
    local model = block()
    model.fc = 3
    fails("Block.fc: was a module, and is now a number", model.parameters, model)
  end)

  it("lets a member go, and come back to its place", function()
    local model = block()
    model.fc = nil
    assert.same({ "norm.weight", "norm.bias", "proj.weight" }, names(model:named_parameters()))
    model.fc = nn.Linear(4, 8)
    assert.equal("fc.weight", names(model:named_parameters())[3])
  end)

  it("takes plain tensors as fields, leaves as parameters, and buffers by name", function()
    local M = nn.class "M"
    function M:init()
      self.scale = nn.Parameter(optlua.ones(2))
      self.frozen = nn.Parameter(optlua.ones(2), { requires_grad = false })
      self.constant = optlua.ones(2)
      self:register_buffer("mean", optlua.zeros(2))
      self:register_buffer("cache", optlua.zeros(2), { persistent = false })
      self.activation = self.scale * 2
    end
    local model = M()
    assert.same({ "scale", "frozen" }, names(model:named_parameters()))
    assert.same({ "mean", "cache" }, names(model:named_buffers()))
    local keys = {}
    for name in pairs(model:state_dict()) do keys[#keys + 1] = name end
    table.sort(keys)
    assert.same({ "frozen", "mean", "scale" }, keys)
  end)

  it("switches modes, freezes and applies", function()
    local model = nn.Sequential { nn.Dropout(0.5), nn.Linear(2, 2) }
    assert.equal(model, model:eval())
    assert.is_false(model[1].training)
    model:train()
    assert.is_true(model[1].training)
    model:requires_grad_(false)
    assert.is_false(model[2].weight.requires_grad)
    local seen = {}
    model:apply(function(module) seen[#seen + 1] = module:type() end)
    assert.same({ "Dropout", "Linear", "Sequential" }, seen)
  end)

  it("prints like PyTorch", function()
    assert.equal("Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=true)\n  (1): ReLU()\n)",
      tostring(nn.Sequential { nn.Linear(2, 3), nn.ReLU() }))
  end)

  it("inherits", function()
    local Base = nn.class "Base"
    function Base:init(n) self.fc = nn.Linear(n, n) end
    function Base:forward(x) return self.fc(x) end
    local Derived = nn.class("Derived", Base)
    function Derived:init(n)
      Derived.super.init(self, n)
      self.out = nn.Linear(n, 1)
    end
    local model = Derived(3)
    assert.equal("Derived", model:type())
    assert.same({ "fc.weight", "fc.bias", "out.weight", "out.bias" }, names(model:named_parameters()))
    assert.same({ 2, 3 }, model(optlua.zeros(2, 3)).shape)
    fails("Empty has no forward", nn.class "Empty"())
    fails("the parent of X is not a class", nn.class, "X", {})
  end)

  it("refuses what makes members under another name than init", function()
    for _, name in ipairs { "__init", "__init__", "new" } do
      local class = nn.class "Net"
      class[name] = function(self) self.fc = nn.Linear(2, 3) end
      fails("class Net: its members are made by Net:init%(…%), not by " .. name, class)
    end
    local Derived = nn.class("Derived", nn.Linear)
    Derived.__init = function() end
    fails("made by Derived:init", Derived, 2, 3)
    local Made = nn.class "Made"
    function Made:init() self.fc = nn.Linear(2, 3) end
    function Made.new() return Made() end
    assert.equal(2, #Made.new():parameters())
  end)
end)

describe("ModuleDict", function()
  it("keeps modules by name, in the order given", function()
    local dict = nn.ModuleDict { { "z", nn.Linear(1, 1) }, { "a", nn.ReLU() } }
    dict.m = nn.Linear(1, 2)
    local found = {}
    for name in dict:named_children() do found[#found + 1] = name end
    assert.same({ "z", "a", "m" }, found)
    assert.same({ 1, 2 }, { #dict:get_submodule("z").bias, dict.m.weight.shape[1] })
    assert.equal("ModuleDict()", tostring(nn.ModuleDict()))
  end)

  it("refuses what has no order, and what is no module", function()
    fails("pairs: expected a list", nn.ModuleDict, { a = nn.ReLU() })
    fails("pair 1: { name, module } expected", nn.ModuleDict, { nn.ReLU() })
    fails("pair 2: { name, module } expected", nn.ModuleDict, { { "a", nn.ReLU() }, { "b", 1 } })
    fails('"a" is there twice', nn.ModuleDict, { { "a", nn.ReLU() }, { "a", nn.ReLU() } })
    fails("cannot bear the name of a module's method", nn.ModuleDict, { { "train", nn.ReLU() } })
  end)
end)

describe("a name that does not exist", function()
  it("is an error that tells the nearest, in the library and in its parts", function()
    fails("nn.Linaer does not exist %(did you mean Linear%?%)", function() return nn.Linaer end)
    fails("nn.functional.rellu does not exist", function() return nn.functional.rellu end)
    fails("data.loadr does not exist %(did you mean loader%?%)", function() return optlua.data.loadr end)
    fails("metrics.accurasy", function() return optlua.metrics.accurasy end)
    fails("optlua.zerso does not exist %(did you mean zeros%?%)", function() return optlua.zerso end)
  end)
end)

describe("a state", function()
  it("goes back and forth, sharing memory on the way out and copying on the way in", function()
    local a, b = block(), block()
    b:load_state_dict(a:state_dict())
    for name, tensor in a:named_parameters() do
      assert.is_true(tensor:equal(b:get_parameter(name)))
      assert.is_true(b:get_parameter(name).requires_grad)
    end
    optlua.no_grad(function() a:state_dict()["fc.weight"]:fill_(7) end)
    assert.equal(7, a.fc.weight[1][1]:item())
    assert.not_equal(7, b.fc.weight[1][1]:item())
  end)

  it("lists all differences at once and changes nothing", function()
    local model = block()
    local before = model.norm.weight:clone()
    local state = model:state_dict()
    state["norm.weight"] = optlua.full({ 4 }, 9)
    state["fc.bias"] = nil
    state["extra"] = optlua.zeros(1)
    state["proj.weight"] = optlua.zeros(3, 3)
    local ok, message = pcall(model.load_state_dict, model, state)
    assert.is_false(ok)
    assert.matches("missing: fc.bias", message)
    assert.matches("unexpected: extra", message)
    assert.matches("proj.weight: float32 %(4, 8%) expected, got float32 %(3, 3%)", message)
    assert.is_true(before:equal(model.norm.weight))
    fails("differing", model.load_state_dict, model, state, { strict = false })
    state["proj.weight"] = nil
    local result = model:load_state_dict(state, { strict = false })
    assert.same({ "fc.bias", "proj.weight" }, result.missing)
    assert.same({ "extra" }, result.unexpected)
    assert.equal(9, model.norm.weight[1]:item())
  end)

  it("can be the module's own, in another order", function()
    local model = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) }
    local first, second = model[1].weight:totable(), model[2].weight:totable()
    local state = model:state_dict()
    state["0.weight"], state["1.weight"] = state["1.weight"], state["0.weight"]
    model:load_state_dict(state)
    assert.same({ second, first }, { model[1].weight:totable(), model[2].weight:totable() })
  end)

  it("converts to another dtype on request", function()
    local model = block():to "float64"
    assert.equal("float64", model.fc.weight.dtype)
    assert.is_true(model.fc.weight.requires_grad)
    assert.same({ 2, 4 }, model(optlua.zeros({ 2, 4 }, { dtype = "float64" })).shape)
  end)
end)

describe("layers", function()
  it("initialise as PyTorch does", function()
    optlua.manual_seed(1)
    local weight = nn.Linear(256, 400).weight
    assert.is_true(weight:abs():max():item() <= 1 / 16)
    assert.near(1 / 16 / math.sqrt(3), weight:std():item(), 2e-3)
    local embedding = nn.Embedding(500, 40).weight
    assert.near(0, embedding:mean():item(), 0.02)
    assert.near(1, embedding:std():item(), 0.02)
    local norm = nn.LayerNorm { 2, 3 }
    assert.is_true(norm.weight:eq(1):all():item() == 1 and norm.bias:eq(0):all():item() == 1)
  end)

  it("embed, with a row for padding that stays zero", function()
    local layer = nn.Embedding(4, 2, { padding_idx = 0 })
    local out = layer(optlua.tensor({ 0, 1, 0, 2 }, { dtype = "int64" }))
    assert.same({ 0, 0 }, out[1]:totable())
    out:sum():backward()
    assert.same({ { 0, 0 }, { 1, 1 }, { 1, 1 }, { 0, 0 } }, layer.weight.grad:totable())
    assert.equal(3, nn.Embedding(4, 2, { padding_idx = -1 }).padding_idx)
    fails("padding_idx 4 is not one of the ids 0 … 3", nn.Embedding, 4, 2, { padding_idx = 4 })
  end)

  it("drop only while training", function()
    local layer, x = nn.Dropout(1), optlua.ones(8)
    assert.equal(0, layer(x):sum():item())
    layer:eval()
    assert.equal(8, layer(x):sum():item())
  end)

  it("check their options where they are made", function()
    local layer
    fails('nn_spec.lua:%d+: nn.Linear: unknown option "bais" %(did you mean "bias"', function()
      layer = nn.Linear(1, 2, { bais = false })
    end)
    fails("nn_spec.lua:%d+: nn.Linear: in_features: expected", function() layer = nn.Linear(1.5, 2) end)
    assert.is_nil(layer)
    fails("nn.Dropout: p: expected a number at least 0 and at most 1, got 1.5", nn.Dropout, 1.5)
    fails("nn.CrossEntropyLoss: reduction: expected one of", nn.CrossEntropyLoss, { reduction = "avg" })
    fails("nn.GELU: approximate", nn.GELU, { approximate = "erf" })
  end)

  it("compute losses", function()
    local logits = optlua.tensor { { 1, 2, 3 }, { 5, 0, 0 } }
    local targets = optlua.tensor({ 2, -100 }, { dtype = "int64" })
    assert.near(0.6076059644, nn.CrossEntropyLoss { label_smoothing = 0.2 }(logits, targets):item(), 1e-6)
    assert.equal(2.5, nn.MSELoss()(optlua.tensor { 1, 2 }, optlua.tensor { 2, 4 }):item())
    assert.same({ 1, 4 }, nn.MSELoss { reduction = "none" }(optlua.tensor { 1, 2 }, optlua.tensor { 2, 4 }):totable())
  end)
end)
