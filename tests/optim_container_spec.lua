-- The container: which parameter belongs to which group, and one step over all of them.
local optlua = require "optlua"
local optim, nn = optlua.optim, optlua.nn

local fails = require("fails").matching

local function values(tensor) return tensor:detach():flatten():totable() end

local Plain = nn.class "Plain"

-- { a.weight, a.bias, ln.weight, ln.bias, emb.weight }
local Net = nn.class "Net"
function Net:init()
  self.a = nn.Linear(2, 3)
  self.ln = nn.LayerNorm(3)
  self.emb = nn.Embedding(4, 3)
end

local function groups_of(model, groups, options)
  local optimizer = optim.container(model, groups, options)
  local result = {}
  for i = 1, #optimizer.groups do result[optimizer.groups[i].name] = table.concat(optimizer.groups[i].names, " ") end
  return result
end

-- What a single condition takes of the net; a catch-all takes the rest.
local function taken(match, model)
  local groups = groups_of(model or Net(), {
    { name = "taken", match = match, class = "SGD", lr = 0.1 },
    { name = "rest", match = function() return true end, class = "SGD", expect = nil },
    { name = "none", match = "nothing", class = "SGD", expect = 0 },
  })
  return groups.taken
end

describe("groups", function()
  it("match by glob, over dots", function()
    assert.equal("a.bias ln.bias", taken "*.bias")
    assert.equal("a.weight a.bias", taken "a.*")
    assert.equal("ln.weight emb.weight", taken "ln.weight|emb.*")
    assert.equal("a.bias", taken "a*s")
    assert.equal("a.weight", taken "a.weight")
    assert.equal("weight", taken("*.weight", nn.Linear(2, 2)))
    fails("matches no parameter", taken, "*.wei")
    fails("matches no parameter", taken, "a.weigh.")
    fails('matches no parameter, .*; match.type: unknown type "Liner" %(did you mean "Linear"%?%)', taken, { type = "Liner" })
    fails("empty alternative", taken, "*.bias|")
    assert.equal("a.weight a.bias", taken "a**.**")
    assert.equal("ln.weight", taken "ln.w*i*ght")
    assert.equal("emb.weight", taken "*mb.*w*t")
    fails("matches no parameter", taken, "a.weight*t") -- the t is taken once
    fails("matches no parameter", taken, "a.*t*t*t")
  end)

  it("match by glob in time that does not explode", function()
    local layer = nn.Sequential {}
    layer[("a"):rep(200)] = nn.Linear(1, 1)
    fails("matches no parameter", taken, ("*a"):rep(60) .. "b", layer)
  end)

  it("match by conditions, all of which must hold", function()
    assert.equal("a.weight emb.weight", taken { ndim = 2 })
    assert.equal("a.weight ln.weight emb.weight", taken { pattern = "weight$" })
    assert.equal("a.weight emb.weight", taken { pattern = "weight$", ndim = 2 })
    assert.equal("a.weight a.bias emb.weight", taken { pattern = { "^a%.", "^emb" } })
    assert.equal("ln.weight ln.bias", taken { type = "LayerNorm" })
    assert.equal("a.weight a.bias emb.weight", taken { type = { "Linear", "Embedding" } })
    assert.equal("a.bias", taken { role = "bias" })
    assert.equal("ln.weight ln.bias", taken { role = "norm" })
    assert.equal("emb.weight", taken { role = "embedding" })
    assert.equal("a.weight", taken { role = "weight" })
    assert.equal("a.weight", taken { ndim = 2, role = { "weight", "bias" } })
    fails('unknown condition "rol" %(did you mean "role"%?%)', taken, { rol = "bias" })
    fails("know neither | nor", taken, { pattern = "bias|weight" })
    fails("know neither | nor", taken, { pattern = "\\.bias" })
    fails("match.pattern: .*malformed", taken, { pattern = "[" })
    fails("match.ndim: a number", taken, { ndim = "2" })
    fails("no condition", taken, {})
    fails("a glob, a table of conditions or a function", taken, 1)
  end)

  it("match by a list of globs", function()
    assert.equal("a.bias ln.weight ln.bias", taken { "*.bias", "ln.*" })
    fails("a list of globs has no condition 'ndim' beside it", taken, { "*.bias", ndim = 1 })
    fails("glob 2: a word expected, got number", taken, { "*.bias", 1 })
  end)

  it("say how it is written when it is nearly right", function()
    fails('unknown role "biass" %(did you mean "bias"%?%); legal: bias, embedding, norm, weight', taken, { role = "biass" })
    fails('"%*.bias" is a glob.*write match = "%*.bias", or the pattern "%%.bias%$"', taken, { pattern = "*.bias" })
    fails("'match' stands in the list of groups", optim.container, Net(), { match = "*" })
    local Own = nn.class "Own"
    function Own:init()
      self.role = { w = "gate" }
      self.w = nn.Parameter(optlua.zeros(2))
      self.rest = nn.Parameter(optlua.zeros(2))
    end
    assert.equal("w", taken({ role = { "gate", "norm" } }, Own()))
    fails("group 'group1': match.role: unknown role", optim.container, Own(), { { match = { role = "gatee" }, class = "SGD" } })
  end)

  it("match by function", function()
    assert.equal("ln.bias", taken(function(name, param, module)
      return module:type() == "LayerNorm" and param.ndim == 1 and name:find "bias"
    end))
    fails("out of luck", taken, function() error "out of luck" end)
  end)

  it("give each parameter to the first that matches", function()
    assert.same({ no_decay = "a.bias ln.weight ln.bias", decay = "a.weight emb.weight" }, groups_of(Net(), {
      { name = "no_decay", match = { role = { "bias", "norm" } }, class = "AdamW", weight_decay = 0 },
      { name = "decay", match = "*", class = "AdamW" },
    }))
    assert.same({ group1 = "a.bias ln.bias", group2 = "a.weight ln.weight emb.weight" },
      groups_of(Net(), { { match = "*.bias", class = "SGD" }, { match = "*", class = "SGD" } }))
  end)

  it("report everything that is wrong at once, by name", function()
    local groups = {
      { name = "biases", match = "*.bias", class = "AdamW", wieght_decay = 0, expect = 3 },
      { name = "dead", match = "*.bais", class = "AdamW", betas = { 1.0, 0 } },
      { name = "again", match = "a.bias", class = "SGDD" },
      { name = "linear", match = "a.*", lr = -1, max_norm = 1, class = optim.SGD },
    }
    local message = fails("parameter 'ln.weight' matches no group", function()
      local _ = optim.container(Net(), groups, { max_nrom = 1 })
    end)
    for _, part in ipairs {
      'unknown option "max_nrom" %(did you mean "max_norm"%?%)',
      "group 'biases': expect = 3, but it takes 2: a.bias, ln.bias",
      'group \'biases\': unknown hyperparameter "wieght_decay"',
      "group 'dead' matches no parameter",
      "group 'dead': betas%[1%]: expected",
      'group \'again\': unknown optimizer "SGDD" %(did you mean "SGD"%?%)',
      "group 'again' matches no parameter, or only such that an earlier group takes",
      "group 'linear': 'max_norm' is an option of the container",
      "group 'linear': lr: expected",
      "parameter 'emb.weight' matches no group",
    } do assert.is_truthy(message:find(part), part .. " is not in " .. message) end
    assert.is_truthy(message:find "^tests/optim_container_spec.lua:")
  end)

  it("hold as many parameters as expected", function()
    assert.equal("a.bias ln.bias", groups_of(Net(), {
      { name = "b", match = "*.bias", class = "SGD", expect = 2 }, { match = "*", class = "SGD", expect = 3 },
    }).b)
    fails("group 'four': expect = 4, but it takes 3: a.weight, ln.weight, emb.weight", groups_of, Net(), {
      { name = "four", match = "*.weight", class = "SGD", expect = 4 }, { match = "*", class = "SGD" },
    })
    fails("expect: a count expected, got two", groups_of, Net(), { { match = "*", class = "SGD", expect = "two" } })
  end)

  it("need a class and a name that is free", function()
    fails("class: a class or its name is required", groups_of, Net(), { { match = "*" } })
    fails("two groups are named 'x'", groups_of, Net(), {
      { name = "x", match = "*.bias", class = "SGD" }, { name = "x", match = "*", class = "SGD" },
    })
    fails("the name of group1 is a word, not 1", groups_of, Net(), { { name = 1, match = "*", class = "SGD" } })
    fails("group 1 is no table", groups_of, Net(), { "x" })
  end)

  it("refuse odd names and fields", function()
    for _, name in ipairs { "", "a\nb", 5, {} } do
      fails("the name of group1 is a word, not", groups_of, Net(), { { name = name, match = "*", class = "SGD" } })
      fails("the name of .* is a word, not", optim.SGD, { { name = name, params = Net() } })
    end
    fails("optional: a boolean expected, got a string", groups_of, Net(), { { match = "*", class = "SGD", optional = "no" } })
    fails("part 1 of the model", optim.container, { { "", Net() } }, "SGD")
    fails("container:extend: a table of methods expected, got a number", optim.Container.extend, optim.Container, 5)
    for _, name in ipairs { "groups", "1", "ü", "a.b", "class" } do
      local optimizer = optim.container(Net(), { { name = name, match = "*", class = "SGD", lr = 0.5 } })
      assert.equal(0.5, optimizer.groups[name].lr)
      optimizer:load_state_dict(optimizer:state_dict())
    end
  end)

  it("refuse parameters that their class does not take", function()
    local matrices = optim.define { name = "Matrices", accepts = { ndim = 2 }, update = function(p, g) return p - g end }
    fails("group 'all': parameter 'a.bias': it has 1 dimensions", groups_of, Net(), { { name = "all", match = "*", class = matrices } })
    assert.equal("a.weight emb.weight", groups_of(Net(), {
      { name = "m", match = { ndim = 2 }, class = matrices }, { match = "*", class = "SGD" },
    }).m)
  end)
end)

describe("roles", function()
  it("come from the layer, then from the name", function()
    local net = Net()
    local roles = {}
    for name, tensor, module in net:named_parameters() do roles[name] = optim.role(name, tensor, module) end
    assert.same({ ["a.weight"] = "weight", ["a.bias"] = "bias", ["ln.weight"] = "norm", ["ln.bias"] = "norm",
      ["emb.weight"] = "embedding" }, roles)
    assert.equal("bias", optim.role("bias", net.a.bias, nil))
    assert.equal("gate", optim.role("x.g", net.a.bias, { role = { g = "gate" } }))
    assert.equal("weight", optim.role("x.h", net.a.bias, { role = { g = "gate" } }))
  end)
end)

describe("parts", function()
  it("give their names to their parameters", function()
    local a, b = nn.Linear(1, 1), nn.Linear(1, 1)
    local optimizer = optim.container({ { "a", a }, { "b", b } }, "SGD", { lr = 0.5 })
    assert.same({ "a.weight", "a.bias", "b.weight", "b.bias" }, optimizer.groups.default.names)
    assert.equal(a, optimizer.model_parts[1])
    assert.equal(0.5, optimizer.groups.default.lr)
    fails("parts 1 and 2 both have a parameter 'weight'", optim.container, { a, b }, "SGD")
  end)

  it("without names keep those of the model, and a pattern need match in one of them only", function()
    local first, second = nn.Sequential { nn.Linear(1, 1) }, Plain()
    second.head = nn.Linear(1, 1)
    local optimizer = optim.container({ first, second }, {
      { name = "head", match = "head.*", class = "SGD" }, { name = "rest", match = "*", class = "SGD" },
    })
    assert.same({ "head.weight", "head.bias" }, optimizer.groups.head.names)
    assert.same({ "0.weight", "0.bias" }, optimizer.groups.rest.names)
  end)

  it("may share parameters, which are one with the first name", function()
    local a, b = nn.Linear(1, 1, { bias = false }), nn.Linear(1, 1, { bias = false })
    b.weight = a.weight
    optlua.no_grad(function() a.weight:fill_(1) end)
    local optimizer = optim.container({ { "a", a }, { "b", b } }, optim.AdamW, { lr = 0.1, weight_decay = 0.1 })
    assert.same({ "a.weight" }, optimizer.groups.default.names)
    a.weight.grad = optlua.zeros(1, 1)
    optimizer:step()
    assert.near(0.99, a.weight:item(), 1e-7)
  end)

  it("are modules", function()
    fails("part 2 of the model", optim.container, { nn.Linear(1, 1), 1 }, "SGD")
    fails("part 2 of the model is nil", optim.container, { nn.Linear(1, 1), nil, nn.Linear(1, 1) }, "SGD")
    fails("a module, a list of modules", optim.container, 1, "SGD")
    fails("a module, a list of modules", optim.container, {}, "SGD")
    fails('unknown optimizer "Sgd"', optim.container, nn.Linear(1, 1), "Sgd")
    fails("class: a class or its name", optim.container, nn.Linear(1, 1))
  end)
end)

describe("a container", function()
  local function mixed(options)
    optlua.manual_seed(3)
    local net = Net()
    return optim.container(net, {
      { name = "biases", match = "*.bias", class = "AdamW", lr = 0.1 },
      { name = "matrices", match = { ndim = 2 }, class = optim.SGD, lr = 0.5, momentum = 0.9 },
      { name = "rest", match = "*", class = optim.AdamW, weight_decay = 0 },
    }, options), net
  end

  local function backward(net, scale)
    local ids = optlua.tensor({ 0, 1, 2 }, { dtype = "int64" })
    local y = net.a(optlua.tensor { { 1, 2 }, { 3, 4 }, { 5, 6 } }) * net.emb(ids) * net.ln.weight + net.ln.bias
    local loss = (y * y):sum() * (scale or 1)
    loss:backward()
  end

  it("has one optimizer a class, in the order of groups", function()
    local optimizer = mixed()
    assert.equal(2, #optimizer.optimizers)
    assert.equal(optim.AdamW, optimizer.optimizers[1].class)
    assert.equal(2, #optimizer.optimizers[1].groups)
    assert.equal(optim.SGD, optimizer.optimizers[2].class)
    assert.same({ "biases", "matrices", "rest" }, { optimizer.groups[1].name, optimizer.groups[2].name, optimizer.groups[3].name })
    assert.is_truthy(tostring(optimizer):find "matrices: 2 parameters, 18 elements")
  end)

  it("steps as its optimizers would, apart", function()
    local optimizer, net = mixed()
    local _, other = mixed()
    local a = other.a
    local apart = {
      optim.AdamW({ { params = { { "x", a.bias }, { "y", other.ln.bias } }, lr = 0.1 },
        { params = { other.ln.weight }, weight_decay = 0 } }),
      optim.SGD({ a.weight, other.emb.weight }, { lr = 0.5, momentum = 0.9 }),
    }
    for _ = 1, 3 do
      optimizer:zero_grad()
      backward(net)
      optimizer:step()
      for _, one in ipairs(apart) do one:zero_grad() end
      backward(other)
      for _, one in ipairs(apart) do one:step() end
    end
    for name, tensor in net:named_parameters() do
      assert.is_true(tensor:detach():equal(other:get_parameter(name):detach()), name)
    end
    assert.equal(3, optimizer:stats().updates)
    assert.equal(3, optimizer.optimizers[2]:stats().updates)
  end)

  it("alone does what is for all its classes", function()
    local optimizer, net = mixed()
    backward(net)
    local before = net.a.weight:detach():clone()
    for _, method in ipairs { "step", "eval", "train", "run", "swap_ema", "with_ema", "swap_swa", "with_swa", "with_eval", "add_group",
      "state_dict", "load_state_dict", "register_step_pre_hook", "register_step_post_hook" } do
      local inner = optimizer.optimizers[1]
      fails("AdamW: " .. method .. ": this optimizer is a part of a container, whose " .. method, inner[method], inner, print)
    end
    assert.is_true(before:equal(net.a.weight:detach()))
    optimizer.grad_scale = 2
    for name, group in pairs(optimizer.optimizers[1]:stats().groups) do
      assert.near(optimizer:stats().groups[name].grad_norm, group.grad_norm, 1e-12)
    end
  end)

  it("says where a rule raises by the name of the group, also of one that a wrapper built", function()
    local broken = optim.define { name = "Broken", update = function() error "broken" end }
    local around = optim.wrapper { name = "Around", build = function(named_params) return broken(named_params) end }
    local net = Net()
    local optimizer = optim.container(net, { { name = "outer", match = "*", class = around } })
    backward(net)
    fails("broken .*Broken, group 'outer.default', parameter '[%w.]+', update 1", optimizer.step, optimizer)
  end)

  it("is one transaction over all classes", function()
    local optimizer, net = mixed()
    local broken = optim.define { name = "Broken", update = function() error "broken" end }
    local extra = optlua.ones(2)
    extra.requires_grad = true
    optimizer:add_group { name = "extra", params = { { "extra", extra } }, class = broken }
    backward(net)
    extra.grad = optlua.ones(2)
    local before = {}
    for name, tensor in net:named_parameters() do before[name] = tensor:detach():clone() end
    fails("broken .*Broken, group 'extra', parameter 'extra', update 1", optimizer.step, optimizer)
    for name, tensor in net:named_parameters() do assert.is_true(before[name]:equal(tensor:detach()), name) end
    assert.equal(0, optimizer:stats().updates)
    assert.equal(0, optimizer:state_dict()["state.a.bias.step"])
    assert.equal(0, optimizer:stats().state_bytes)
    extra.grad = nil
    optimizer:step()
    assert.equal(1, optimizer:stats().updates)
  end)

  it("saves by full name, and loads into a container that was built alike", function()
    local optimizer, net = mixed()
    backward(net)
    optimizer:step()
    local state = optimizer:state_dict()
    assert.equal(1, state["state.a.weight.step"])
    assert.same({ 3, 2 }, state["state.a.weight.momentum_buffer"].shape)
    assert.equal("SGD", state["class.matrices"])
    local other, same = mixed()
    other:load_state_dict(state)
    same:load_state_dict(net:state_dict())
    for _, pair in ipairs { { optimizer, net }, { other, same } } do
      pair[1]:zero_grad()
      backward(pair[2])
      pair[1]:step()
    end
    for name, tensor in net:named_parameters() do
      assert.is_true(tensor:detach():equal(same:get_parameter(name):detach()), name)
    end
  end)

  it("of one class stays of one class", function()
    local optimizer = optim.container(Net(), "SGD", { lr = 0.5, max_norm = 1 })
    local extra = optlua.ones(2)
    extra.requires_grad = true
    fails("of the class SGD, not AdamW", optimizer.add_group, optimizer, { params = { extra }, class = "AdamW" })
    optimizer:add_group { name = "extra", params = { extra }, momentum = 0.5 }
    assert.equal(0.5, optimizer.groups.extra.lr)
    assert.equal(1, #optimizer.optimizers)
    fails("class: a class or its name is required", function() mixed():add_group { params = {} } end)
    fails('unknown hyperparameter "momentun"', optim.container, Net(), "SGD", { momentun = 1 })
    fails("arguments of the class are a table", optim.container, Net(), "SGD", 1)
  end)

  it("knows frozen parameters, which sleep in their group", function()
    local optimizer, net = mixed()
    net.ln:requires_grad_(false)
    backward(net)
    local before = values(net.ln.weight)
    optimizer:step()
    assert.same(before, values(net.ln.weight))
    assert.same({ "ln.weight" }, optimizer.groups.rest.names)
    net.ln:requires_grad_(true)
    optimizer:zero_grad()
    backward(net)
    optimizer:step()
    assert.not_same(before, values(net.ln.weight))
  end)

  it("can be extended", function()
    local calls = 0
    local Counting = optim.Container:extend {
      step = function(self, ...)
        calls = calls + 1
        return optim.Container.step(self, ...)
      end,
    }
    local net = Net()
    local optimizer = Counting(net, "SGD", { lr = 0.1 })
    backward(net)
    optimizer:step()
    assert.equal(1, calls)
    assert.equal(1, optimizer:stats().updates)
    assert.is_truthy(tostring(optimizer):find "default: 5 parameters")
  end)
end)

describe("clipping by a container", function()
  local function make(gradients, options, dtype)
    local module = Plain()
    for i, g in ipairs(gradients) do
      module["p" .. i] = nn.Parameter(optlua.zeros_like(optlua.tensor(g, { dtype = dtype })))
      module["p" .. i].grad = optlua.tensor(g, { dtype = dtype })
    end
    options.lr = 1
    return optim.container(module, "SGD", options), module
  end

  it("scales gradients as they are read, and does not write them", function()
    local optimizer, m = make({ { 3 }, { 4, 0 } }, { max_norm = 1 }, "float64")
    optimizer:step()
    assert.near(-0.6, m.p1:item(), 1e-6)
    assert.near(-0.8, values(m.p2)[1], 1e-6)
    assert.equal(3, m.p1.grad:item())
    assert.equal(5, optimizer:stats().grad_norm)
    m.p1.grad = nil
    optimizer:step()
    assert.equal(4, optimizer:stats().grad_norm)
  end)

  it("equals PyTorch's factor, max_norm / (norm + 1e-6)", function()
    local optimizer, m = make({ { 3 }, { 4 } }, { max_norm = 2 }, "float64")
    optimizer:step()
    assert.near(-3 * (2 / (5 + 1e-6)), m.p1:item(), 1e-15)
  end)

  it("leaves small gradients alone, bit for bit", function()
    local optimizer, m = make({ { 0.3 }, { 0.4 } }, { max_norm = 1 })
    optimizer:step()
    assert.is_true(m.p1:detach():equal(-m.p1.grad))
    local free, n = make({ { 30 }, { 40 } }, { max_norm = math.huge })
    free:step()
    assert.equal(-30, n.p1:item())
    assert.equal(50, free:stats().grad_norm)
  end)

  it("does not overflow", function()
    local gradients = {}
    for i = 1, 100 do gradients[i] = { 1e20 } end
    local optimizer, m = make(gradients, { max_norm = 1 })
    optimizer:step()
    assert.near(1e21, optimizer:stats().grad_norm, 1e14)
    assert.near(-0.1, m.p7:item(), 1e-7)
  end)

  it("measures by the largest value too", function()
    local optimizer, m = make({ { 3, -4 }, { 2 } }, { max_norm = 1, norm_type = math.huge }, "float64")
    optimizer:step()
    assert.near(-0.75, values(m.p1)[1], 1e-6)
    assert.equal(4, optimizer:stats().grad_norm)
    fails("norm_type: expected one of", make, { { 1 } }, { max_norm = 1, norm_type = 1 })
  end)

  it("refuses a norm that is not finite, and then changes nothing", function()
    for _, x in ipairs { math.huge, -math.huge, 0 / 0 } do
      local optimizer, m = make({ { 1 }, { 2, x } }, { max_norm = 1, momentum = 0.9 })
      fails("gradient of parameter 'p2' is not finite", optimizer.step, optimizer)
      assert.equal(0, m.p1:item())
      assert.equal(1, m.p1.grad:item())
      assert.equal(0, optimizer:stats().updates)
      assert.equal(0, optimizer:stats().state_bytes)
      m.p2.grad = nil
      optimizer:step()
      assert.near(-1, m.p1:item(), 1e-5)
    end
  end)

  it("asks for finite gradients as long as it is there", function()
    local model = nn.Linear(1, 1, { bias = false })
    local p, optimizer = model.weight, optim.container(model, "SGD", { lr = 1 })
    optimizer.max_norm = 1
    p.grad = optlua.tensor { { 0 / 0 } }
    fails("is not finite", optimizer.step, optimizer)
    optimizer.max_norm = nil
    optimizer:step()
    assert.is_true(p:item() ~= p:item())
    assert.equal(1, optimizer:stats().updates)
  end)

  it("can be left out, and finiteness asked for without it", function()
    local optimizer = make({ { 1 }, { math.huge } }, {})
    optimizer:step()
    local strict = make({ { 1 }, { 0 / 0 } }, { nonfinite = "error" })
    fails("gradient of parameter 'p2' is not finite", strict.step, strict)
    fails('nonfinite: expected one of "off", "error"', make, { { 1 } }, { nonfinite = "ignore" })
  end)

  it("refuses limits that are none", function()
    fails("max_norm: expected a number at least 0, got %-1", make, { { 1 } }, { max_norm = -1 })
    fails("max_norm: expected a number", make, { { 1 } }, { max_norm = 0 / 0 })
    fails("max_norm: expected a number", make, { { 1 } }, { max_norm = "1" })
  end)
end)

describe("clip_grad_norm_", function()
  local function make(...)
    local list = {}
    for i, g in ipairs { ... } do
      list[i] = optlua.zeros_like(optlua.tensor(g))
      list[i].requires_grad = true
      list[i].grad = optlua.tensor(g)
    end
    return list
  end

  it("writes gradients and returns the norm before", function()
    local list = make({ 3 }, { 4, 0 })
    assert.equal(5, optim.clip_grad_norm_(list, 1))
    assert.near(0.6, list[1].grad:item(), 1e-6)
    assert.near(0.8, list[2].grad:totable()[1], 1e-6)
    assert.near(1, optim.clip_grad_norm_(list, 10), 1e-6)
    assert.near(0.6, list[1].grad:item(), 1e-6)
    assert.near(0.8, optim.clip_grad_norm_(list, math.huge, { norm_type = math.huge }), 1e-6)
  end)

  it("takes a module, an iterator, one tensor, and strided gradients", function()
    local net = nn.Linear(2, 2, { bias = false })
    local x = optlua.tensor { { 3, 0 }, { 0, 4 } }
    local loss = (net.weight * x:t()):sum()
    loss:backward()
    assert.equal(5, optim.clip_grad_norm_(net, 1))
    assert.near(0.6, net.weight.grad:totable()[1][1], 1e-6)
    assert.near(1, optim.clip_grad_norm_(net:named_parameters(), 5), 1e-6)
    assert.near(1, optim.clip_grad_norm_(net.weight, 5), 1e-6)
    local w = optlua.zeros(2, 2)
    w.requires_grad = true
    loss = (w * x:t()):sum()
    loss:backward()
    optim.clip_grad_norm_({ w }, 1)
    assert.near(0.8, w.grad:totable()[2][2], 1e-6)
  end)

  it("counts a tensor once", function()
    local list = make({ 3 }, { 4 })
    assert.equal(5, optim.clip_grad_norm_({ list[1], list[2], list[1] }, math.huge))
  end)

  it("does not overflow", function()
    local gradients = {}
    for i = 1, 100 do gradients[i] = { 1e20 } end
    local list = make(table.unpack(gradients))
    assert.near(1e21, optim.clip_grad_norm_(list, 1), 1e14)
    assert.near(0.1, list[50].grad:item(), 1e-7)
  end)

  it("gives 0 where there is nothing", function()
    assert.equal(0, optim.clip_grad_norm_({}, 1))
    assert.equal(0, optim.clip_grad_norm_({}, 1, { norm_type = math.huge }))
    local absent, empty = optlua.zeros(2), optlua.zeros(0)
    absent.requires_grad, empty.requires_grad = true, true
    empty.grad = optlua.zeros(0)
    assert.equal(0, optim.clip_grad_norm_({ absent, empty }, 1, { norm_type = math.huge }))
    assert.equal(0, optim.clip_grad_norm_({ absent, empty }, 1))
    assert.is_nil(absent.grad)
  end)

  it("refuses what it cannot do, and then changes nothing", function()
    local list = make({ 3 }, { math.huge })
    fails("gradient of parameter 'param2' is not finite", optim.clip_grad_norm_, list, 1)
    assert.equal(3, list[1].grad:item())
    fails("max_norm: expected a number at least 0, got %-1", optim.clip_grad_norm_, list, -1)
    fails("max_norm: expected", optim.clip_grad_norm_, list, 0 / 0)
    fails("max_norm: expected", optim.clip_grad_norm_, list)
    fails("norm_type: expected one of", optim.clip_grad_norm_, list, 1, { norm_type = 1 })
    fails('unknown option "norm"', optim.clip_grad_norm_, list, 1, { norm = 1 })
    fails("no order", optim.clip_grad_norm_, { a = list[1] }, 1)
    assert.equal(3, list[1].grad:item())
  end)
end)
