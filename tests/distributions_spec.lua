-- Distributions: golden numbers of densities, entropies and divergences; moments of samples; bad input.
local optlua = require "optlua"
local distributions = optlua.distributions
local golden = require "golden.distributions"

local fails = require("fails").containing

local function double(value) return optlua.tensor(value, { dtype = "float64" }) end

--- Positional arguments of each class; those that are not here take a table.
local order = { Normal = { "loc", "scale" }, Uniform = { "low", "high" }, Exponential = { "rate" } }

--- Makes a distribution, and returns its parameters, as leaves, by name.
local function make(class, params)
  local leaves = {}
  for name, value in pairs(params) do
    leaves[name] = double(value)
    leaves[name].requires_grad = true
  end
  if not order[class] then return distributions[class](leaves), leaves end
  local arguments = {}
  for k, name in ipairs(order[class]) do arguments[k] = leaves[name] end
  return distributions[class](table.unpack(arguments)), leaves
end

local function near(what, want, got)
  want = double(want)
  assert.same(want.shape, got.shape, what)
  local close = optlua.isclose(got:detach(), want, { rtol = 1e-12, atol = 1e-12, equal_nan = true }):all():item()
  assert.equal(1, close, ("%s: %s expected, got %s"):format(what, want, got))
end

describe("a distribution", function()
  for n, case in ipairs(golden) do
    it(("has PyTorch's numbers: %d, %s"):format(n, case.class), function()
      local value = optlua.tensor(case.value, { dtype = case.class == "Categorical" and "int64" or "float64" })
      for _, quantity in ipairs { "log_prob", "entropy" } do
        local d, leaves = make(case.class, case.params)
        local result = d[quantity](d, value)
        near(quantity, case[quantity], result)
        if result.requires_grad then result:sum():backward() end
        for name, gradient in pairs(case[quantity .. "_gradients"]) do
          near("gradient of " .. name, gradient, leaves[name].grad or optlua.zeros_like(leaves[name]))
        end
      end
      local d, other = make(case.class, case.params), make(case.class, case.other)
      near("mean", case.mean, d.mean)
      near("variance", case.variance, d.variance)
      near("divergence", case.divergence, distributions.kl_divergence(d, other))
    end)

    it(("draws samples of its mean and variance: %d, %s"):format(n, case.class), function()
      if case.class == "Categorical" then return end
      optlua.manual_seed(n)
      local d, count = make(case.class, case.params), 40000
      local x = d:sample(count)
      assert.is_false(x.requires_grad)
      local error_of_mean = (x:mean { 1 } - d.mean):abs() / (d.stddev / math.sqrt(count) + 1e-9)
      assert.is_true(error_of_mean:max():item() < 5)
      assert.is_true(((x:var { 1 } - d.variance):abs() / (d.variance + 1e-9)):max():item() < 0.1)
    end)
  end

  it("draws the same samples from the same seed, in the shape that is asked for", function()
    local d = distributions.Normal(optlua.zeros(3), optlua.ones(2, 1))
    assert.same({ 2, 3 }, d.batch_shape)
    assert.same({ 2, 3 }, d:sample().shape)
    assert.same({ 4, 2, 3 }, d:sample(4).shape)
    assert.same({ 5, 4, 2, 3 }, d:sample { 5, 4 }.shape)
    assert.same({ 0, 2, 3 }, d:sample { 0 }.shape)
    assert.same({}, distributions.Normal(0, 1):sample().shape)
    optlua.manual_seed(3)
    local first = d:sample(2):totable()
    optlua.manual_seed(3)
    assert.same(first, d:sample(2):totable())
  end)

  it("lets gradients through rsample, and not through sample", function()
    local d, leaves = make("Normal", { loc = { 1, 2 }, scale = { 3, 4 } })
    optlua.manual_seed(1)
    local x = d:rsample(7)
    x:sum():backward()
    assert.same({ 7, 7 }, leaves.loc.grad:totable())
    near("slope by scale", ((x:detach() - d.loc:detach()) / d.scale:detach()):sum(1):totable(), leaves.scale.grad)
    assert.is_false(d:sample().requires_grad)
    assert.is_true(make("Uniform", { low = 0, high = 1 }):rsample().requires_grad)
    assert.is_true(make("Exponential", { rate = 2 }):rsample().requires_grad)
    fails("Categorical: has no rsample", function() make("Categorical", { probs = { 1, 1 } }):rsample() end)
  end)

  it("has no history where its parameters have none", function()
    assert.is_false(distributions.Categorical { logits = optlua.zeros(2) }:log_prob(0).requires_grad)
  end)

  it("names what does not fit", function()
    fails("Normal: scale: every element must be positive", function() distributions.Normal(0, -1) end)
    fails("Normal: loc: expected a number, got NaN", function() distributions.Normal(0 / 0, 1) end)
    fails("Normal: loc: every element must be finite", function() distributions.Normal(optlua.tensor { 0 / 0 }, 1) end)
    fails("Normal: scale: is required", function() distributions.Normal(0) end)
    fails("Normal: scale: is int64; wants float32 or float64",
      function() distributions.Normal(0, optlua.ones({ 2 }, { dtype = "int64" })) end)
    fails("Normal: shapes (2) and (3) do not broadcast",
      function() distributions.Normal(optlua.ones(2), optlua.ones(3)) end)
    fails("sample_shape: expected an integer at least 0, got -1", function() distributions.Normal(0, 1):sample(-1) end)
    fails("Normal: value: expected a tensor or a number, got string", function() distributions.Normal(0, 1):log_prob "1" end)
    fails("Uniform: high: every element must be above low", function() distributions.Uniform(1, 1) end)
    fails("Exponential: rate: every element must be positive", function() distributions.Exponential(0) end)
    fails("Bernoulli: probs: every element must be from 0 to 1", function() distributions.Bernoulli(1.5) end)
    fails("two distributions of one class expected, got Normal and Bernoulli", function()
      distributions.kl_divergence(distributions.Normal(0, 1), distributions.Bernoulli(0.5))
    end)
  end)
end)

describe("a categorical distribution", function()
  local Categorical = distributions.Categorical

  it("draws classes as often as they are likely", function()
    optlua.manual_seed(5)
    local d = Categorical(optlua.tensor { { 1, 2, 5 }, { 0, 1, 0 } })
    local x = d:sample(20000)
    assert.same({ 20000, 2 }, x.shape)
    assert.equal("int64", x.dtype)
    for class, share in ipairs { 0.125, 0.25, 0.625 } do
      local mean = x:select(2, 1):eq(class - 1):to("float64"):mean():item()
      assert.is_true(math.abs(mean - share) < 0.015, ("%d: %g"):format(class, mean))
    end
    assert.equal(20000, x:select(2, 2):sum():item())
    assert.same({ 3, 0 }, Categorical(optlua.ones(0, 2)):sample(3).shape)
    assert.same({}, Categorical(optlua.ones(2)):sample().shape)
  end)

  it("takes logits of minus infinity for what cannot happen", function()
    local d = Categorical { logits = double { 0, -math.huge, 0 } }
    near("entropy", math.log(2), d:entropy())
    assert.equal(-math.huge, d:log_prob(1):item())
    local other = Categorical(double { 1, 0, 0 })
    assert.equal(math.huge, distributions.kl_divergence(d, other):item())
    assert.is_true(distributions.kl_divergence(other, d):item() < 1)
  end)

  it("takes one class for all, or one class for each", function()
    local d = Categorical(double { { 0.5, 0.5 }, { 0.2, 0.8 } })
    near("one", { math.log(0.5), math.log(0.8) }, d:log_prob(1))
    near("column", { { math.log(0.5), math.log(0.2) }, { math.log(0.5), math.log(0.8) } },
      d:log_prob(optlua.tensor({ { 0 }, { 1 } }, { dtype = "int64" })))
  end)

  it("names what does not fit", function()
    fails("Categorical: probs: every element must be at least 0", function() Categorical(optlua.tensor { -1, 2 }) end)
    fails("Categorical: probs: every element must be finite, and their sum positive",
      function() Categorical(optlua.zeros(2)) end)
    fails("Categorical: logits: every element must be a number below infinity",
      function() Categorical { logits = optlua.tensor { 0, 0 / 0 } } end)
    fails("Categorical: probs has no classes", function() Categorical(0.5) end)
    fails('unknown option "logit" (did you mean "logits"?)', function() Categorical { logit = optlua.ones(2) } end)
    fails("either probs or logits must be given, and not both", function() Categorical {} end)
    fails('Categorical: value is float32; classes are int64', function() Categorical(optlua.ones(2)):log_prob(optlua.ones(1)) end)
    fails("Categorical: value and batch: shapes (3) and (2) do not broadcast",
      function() Categorical(optlua.ones(2, 3)):log_prob(optlua.zeros({ 3 }, { dtype = "int64" })) end)
  end)
end)
