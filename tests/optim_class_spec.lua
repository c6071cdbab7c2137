-- Classes of optimizers: what a definition may say, what is refused, and their names.
local optlua = require "optlua"
local optim = optlua.optim

local fails = require("fails").matching

-- A parameter with a gradient.
local function param(value, gradient, options)
  local p = optlua.tensor(value, options or { dtype = "float64" })
  p.requires_grad = true
  if gradient then p.grad = optlua.tensor(gradient, { dtype = p.dtype }) end
  return p
end

local function rule(update, extra)
  local definition = { name = "Test", hyper = { lr = 0.5, betas = { 0.9, 0.99 }, fancy = false }, update = update }
  for key, value in pairs(extra or {}) do definition[key] = value end
  return optim.define(definition)
end

describe("a check of hyperparameters together", function()
  local function ordered(calls)
    return rule(function(p) return p end, { check = function(h)
      if calls then calls[#calls + 1] = h.betas[1] end
      return h.betas[1] > h.betas[2] and "betas: they do not grow" or nil
    end })
  end

  it("is made when they are given, set and loaded, of defaults too", function()
    local Test, p = ordered(), param({ 1 }, { 1 })
    fails("Test: group 'default': betas: they do not grow", Test, { p }, { betas = { 0.5, 0.1 } })
    fails("group 'default': betas: they do not grow", optim.container, optlua.nn.Linear(1, 1), Test, { betas = { 0.5, 0.1 } })
    local optimizer = Test({ p }, {})
    fails("betas: they do not grow", function() optimizer.groups.default.betas = { 0.5, 0.1 } end)
    assert.equal(0.99, optimizer.groups.default.betas[2])
    fails("betas: they do not grow", optimizer.add_group, optimizer,
      { params = { param { 1 } }, betas = { 0.5, 0.1 } })
    local state = optimizer:state_dict()
    state["group.default.betas"] = { 0.5, 0.1 }
    fails("group.default: betas: they do not grow", optimizer.load_state_dict, optimizer, state)
    assert.equal(0.9, optimizer.groups.default.betas[1])
  end)

  it("comes after that of each, and sees no others", function()
    local calls = {}
    fails("betas: expected a list", ordered(calls), { param { 1 } }, { betas = 3 })
    assert.same({}, calls)
    local p = param { 1 }
    fails('unknown hyperparameter "beta"', rule(function() return p end, { check = function(h) return h.beta end }), { p })
    fails("Test: check: it returns what is wrong, a text, or nothing, not a boolean",
      rule(function() return p end, { check = function() return false end }), { p })
    fails("check: a function expected, got string", rule, print, { check = "x" })
  end)

  it("holds for classes made from classes, with theirs", function()
    local Outer = optim.transform(ordered(), { name = "Outer", hyper = { far = 1 }, check = function(h)
      return h.far < h.lr and "far is nearer than lr" or nil
    end, update = function(p, g, _, _, inner) return inner(p, g) end })
    fails("they do not grow", Outer, { param { 1 } }, { betas = { 0.5, 0.1 } })
    fails("far is nearer than lr", Outer, { param { 1 } }, { lr = 2 })
    fails("they do not grow", optim.lookahead(ordered()), { param { 1 } }, { betas = { 0.5, 0.1 } })
    fails("they do not grow", optim.container, optlua.nn.Linear(1, 1), ordered(), { betas = { 0.5, 0.1 }, ema = 0.9, clip_value = 1 })
  end)

  it("is PyTorch's", function()
    for _, name in ipairs { "SGD", "LARS" } do
      for _, opts in ipairs { { momentum = 0 }, { momentum = 0.9, dampening = 0.1 }, { momentum = 0, dampening = 1 } } do
        opts.nesterov = true
        fails("nesterov needs a momentum and no dampening", optim[name], { param { 1 } }, opts)
      end
      optim[name]({ param { 1 } }, { nesterov = true, momentum = 0.9 })
    end
    for _, etas in ipairs { { 0.5, 0.9 }, { 1, 1.2 }, { 1.1, 1.2 }, { 0.5, 1 } } do
      fails("etas: the first shrinks", optim.Rprop, { param { 1 } }, { etas = etas })
    end
    for _, name in ipairs { "alpha_warmup", "beta3_warmup" } do
      fails(name .. ": expected an integer", optim.AdEMAMix, { param { 1 } }, { [name] = 2.5 })
    end
  end)
end)

describe("a definition is refused", function()
  local function define(extra)
    local definition = { name = "Bad", update = function(p) return p end }
    for key, value in pairs(extra) do definition[key] = value end
    return optim.define(definition)
  end

  it("when it is no definition", function()
    fails('optim.define: unknown field "nme" %(did you mean "name"%?%)', optim.define, { nme = "X", update = print })
    fails("a table expected", optim.define, 1)
    fails("name: a word is required", optim.define, {})
    fails("update: .* is required", optim.define, { name = "X" })
    fails("update: a function expected", define, { update = 1 })
    fails('unknown field "befor" %(did you mean "before"%?%)', define, { befor = function() end })
    fails('unknown field "hyperr"', define, { hyperr = {} })
    fails("doc: a text expected, got table", define, { doc = {} })
  end)

  it("for hyperparameters", function()
    fails("a word that groups use", define, { hyper = { params = 1 } })
    fails("a word that groups use", define, { hyper = { step = 1 } })
    fails("a word that groups use", define, { hyper = { match = "x" } })
    fails("default is not legal", define, { hyper = { lr = { default = -1, min = 0 } } })
    fails('unknown field "mim"', define, { hyper = { lr = { default = 1, mim = 0 } } })
    fails('hyper.lr: unknown field "defualt" %(did you mean "default"%?%)', define, { hyper = { lr = { defualt = 0.1 } } })
    fails('hyper.lr: unknown field "value"; legal: above', define, { hyper = { lr = { value = 0.1, 2 } } })
    fails("hyper.lr: a description needs the field default", define, { hyper = { lr = { min = 0 } } })
    fails("the default is", define, { hyper = { lr = function() end } })
    fails("no name for a hyperparameter", define, { hyper = { 1 } })
    fails("hyper.m: min: a number expected, got string", define, { hyper = { m = { default = 1, min = "x" } } })
    fails("hyper.m: max: a number expected, got NaN", define, { hyper = { m = { default = 1, max = 0 / 0 } } })
    fails("hyper.m: choices: a table expected", define, { hyper = { m = { default = 1, choices = 1 } } })
  end)

  it("where a name looks like a field that is not there, and not else", function()
    local function named(name, more)
      local definition = { name = "Bad", update = function(p) return p end, [name] = function(p) return p end }
      for key, value in pairs(more or {}) do definition[key] = value end
      return optim.define(definition)
    end
    for _, name in ipairs { "swap", "stop", "steps", "named", "step2" } do assert.is_function(named(name).rules[name]) end
    assert.is_function(named("shape", { state = { m = 0 } }).rules.shape)
    fails('unknown field "shape"', named, "shape")
    fails('unknown field "updat"', optim.define, { name = "Bad", updat = print })
  end)

  it("for states", function()
    fails("no name for a state", define, { state = { step = 0 } })
    fails("a number, \"param\" or a table expected", define, { state = { m = "zeros" } })
    fails('unknown field "inti"', define, { state = { m = { inti = 0 } } })
    fails("dtype", define, { state = { m = { dtype = "int64" } } })
    fails("sizes are integers", define, { state = { m = { shape = { 1.5 } } } })
    fails("a copy of the parameter has", define, { state = { m = { shape = { 1 }, init = "param" } } })
    fails("a table of states expected", define, { state = 1 })
  end)

  it("for numbers of the group, and accepts", function()
    fails("group.x: a number under a name expected, got string", define, { group = { x = "1" } })
    fails("group.x: a number under a name expected, got NaN", define, { group = { x = 0 / 0 } })
    fails("is that of a hyperparameter", define, { group = { lr = 0 }, hyper = { lr = 1 } })
    for _, word in ipairs { "step", "mode", "rounding_seed", "max_group_norm", "names", "state" } do
      fails(("group.%s: the name is that"):format(word), define, { group = { [word] = 0 } })
    end
    fails("accepts: unknown option", define, { accepts = { dims = 2 } })
    fails("accepts: a table or a function", define, { accepts = 2 })
  end)
end)

describe("a class", function()
  it("is what its definition said, though that is changed and used again", function()
    local definition = { name = "X", hyper = { lr = { default = 1, min = 0 }, ends = { default = { 1, 2 } } }, group = { x = 1 },
      state = { m = { init = 2 } }, accepts = { ndim = { 1 } }, update = function(p, _, s, h) return p - h.lr * s.m end }
    local class = optim.define(definition)
    definition.hyper.lr.default, definition.hyper.lr.min, definition.hyper.ends.default[1] = -9, nil, 9
    definition.group.x, definition.state.m.init, definition.accepts.ndim[1] = 9, 9, 9
    local outer = optim.transform(class, { name = "Y", update = function(p, g, _, _, inner) return inner(p, g) end })
    for _, one in ipairs { class, outer } do
      assert.matches("ends = { 1, 2 }, lr = 1 }", tostring(one))
      local p = param({ 1 }, { 1 })
      local optimizer = one { { "p", p } }
      optimizer:step()
      assert.same({ -1, 1 }, { p:item(), optimizer:state_dict()["group.default.x"] })
      fails("at least 0", one, { p }, { lr = -1 })
    end
  end)

  it("says where before and after raise", function()
    for _, field in ipairs { "before", "after" } do
      local class = rule(function(p) return p end, { name = "Fails", [field] = function() error "no luck" end })
      local optimizer = class { { "p", param({ 1 }, { 1 }) } }
      fails(("optim_class_spec.lua:%%d+: no luck %%(Fails, group 'default', %s of update 1%%)"):format(field), optimizer.step, optimizer)
      local value = {}
      class = rule(function(p) return p end, { [field] = function() error(value) end })
      optimizer = class { { "p", param({ 1 }, { 1 }) } }
      local _, got = pcall(optimizer.step, optimizer)
      assert.equal(value, got)
    end
  end)

  it("keeps the sign of zeros among its numbers", function()
    local class = rule(function(p) return p end, { group = { x = -0.0, y = 0 }, before = function(group) group.y = -0.0 end })
    local optimizer = class { { "p", param({ 1 }, { 1 }) } }
    optimizer:step()
    local state = optimizer:state_dict()
    assert.same({ -math.huge, -math.huge }, { 1 / state["group.default.x"], 1 / state["group.default.y"] })
  end)

  it("refuses parameters by name, all at once", function()
    local class = rule(function(p) return p end, { accepts = { ndim = 2 } })
    local message = fails("'a': it has 1 dimensions; 2 expected", class, { { "a", param { 1 } }, { "b", param { { 1 } } }, { "c", param { 1 } } })
    assert.is_truthy(message:find "'c'")
    assert.is_nil(message:find "'b'")
    local picky = rule(function(p) return p end, { accepts = function(tensor, name) return name ~= "c", "not this one" end })
    fails("parameter 'c': not this one", picky, { { "c", param { 1 } } })
  end)

  it("says what it is", function()
    assert.is_true(optim.is_class(optim.AdamW))
    assert.is_false(optim.is_class({}))
    assert.equal("AdamW", optim.AdamW.name)
    assert.equal(0.001, optim.AdamW.hyper.lr.default)
    assert.is_truthy(tostring(optim.AdamW):find "betas = { 0.9, 0.999 }")
  end)

  it("shows its program", function()
    local text = optim.AdamW:program()
    assert.is_truthy(text:find "^AdamW, update 1: float32, 1 pass")
    assert.is_truthy(text:find "28 bytes an element")
    assert.is_truthy(text:find "reads p g exp_avg exp_avg_sq")
    assert.is_truthy(optim.AdamW:program({ amsgrad = true }):find "max_exp_avg_sq")
    assert.is_truthy(optim.AdamW:program({ dtype = "float64" }):find "float64")
    assert.not_equal(optim.Adam:program { step = 1 }, optim.Adam:program { step = 10 })
    assert.matches("^SGD: float32", optim.SGD:program())
    assert.matches("^SGD, update 1: float32, 1 pass.*reads p g, ", optim.SGD:program { momentum = 0.9 })
    assert.matches("^SGD: .*reads p g momentum_buffer, ", optim.SGD:program { momentum = 0.9, step = 2 })
    local matrices = rule(function(p) return optim.matmul(p, optim.t(p)) end, { accepts = { ndim = 2 } })
    assert.is_truthy(matrices:program { shape = { 3, 3 } })
    assert.is_truthy(optim.SGD:program({ clip_value = 1 }):find "clamp")
    fails("AdamW:program: unknown option \"lrr\" %(did you mean \"lr\"%?%)", optim.AdamW.program, optim.AdamW, { lrr = 1 })
    fails("AdamW:program: unknown option \"stp\" %(did you mean \"step\"%?%)", optim.AdamW.program, optim.AdamW, { stp = 1 })
    fails("AdamW:program: shape%[2%]: expected an integer at least 0, got %-1", optim.AdamW.program, optim.AdamW, { shape = { 2, -1 } })
    fails("AdamW:program: dtype: expected one of \"float32\", \"float64\"", optim.AdamW.program, optim.AdamW, { dtype = "float16" })
    fails("step: expected", optim.AdamW.program, optim.AdamW, { step = 0 })
    fails("optim_class_spec.lua:%d+: program: a class expected, got nothing; methods are called with a colon: class:program", function()
      optim.AdamW.program()
    end)
  end)
end)

describe("the registry", function()
  it("finds classes by name", function()
    local class = optim.register("RegistryTest", rule(function(p) return p end))
    assert.equal(class, optim.get "RegistryTest")
    assert.equal(optim.AdamW, optim.resolve "AdamW")
    assert.equal(optim.AdamW, optim.resolve(optim.AdamW))
    local names = table.concat(optim.list(), " ")
    assert.is_truthy(names:find "RegistryTest")
    optim.unregister "RegistryTest"
    fails('unknown optimizer "RegistryTest"', optim.get, "RegistryTest")
  end)

  it("refuses what it cannot keep", function()
    fails('unknown optimizer "Adamw" %(did you mean "AdamW"%?%)', optim.get, "Adamw")
    fails("already a registered optimizer", optim.register, "AdamW", rule(function(p) return p end))
    fails("a class expected", optim.register, "Other", {})
    fails("is a word", optim.register, "no word", rule(function(p) return p end))
    fails("SGD comes with the library", optim.unregister, "SGD")
  end)

  it("knows a class for every file of the library", function()
    local listed = table.concat(optim.list(), " "):lower()
    local root = os.getenv "ROOT"
    for path in io.popen(("grep -l 'return optim.define' '%s'/lua/optlua/optim/classes/*.lua"):format(root)):lines() do
      local name = path:match "([^/]+)%.lua$"
      assert.is_truthy((" " .. listed .. " "):find(" " .. name .. " ", 1, true), name)
    end
  end)
end)
