-- Option tables are checked in one place.
local options = require "optlua.options"
local optlua = require "optlua"

local schema = {
  lr = { default = 1e-3, min = 0 },
  betas = { default = { 0.9, 0.95 }, min = 0, below = 1 },
  steps = { default = 5, min = 1, integer = true },
  nesterov = true,
  reduction = { default = "mean", choices = { "none", "mean", "sum" } },
  collate = { required = false, type = "callable" },
  path = { required = true, type = "string" },
  limit = { default = math.huge, above = 0, type = "number" },
  pair = { default = {}, integer = true },
}

local function with(given)
  given.path = given.path or "x"
  return options.check("thing", given, schema)
end

local function problem(given)
  local ok, message = pcall(with, given)
  assert.is_false(ok)
  return message
end

describe("options.check", function()
  it("fills in defaults, in a table of its own", function()
    local given = { path = "x" }
    local checked = options.check("thing", given, schema)
    assert.are.same({ lr = 1e-3, betas = { 0.9, 0.95 }, steps = 5, nesterov = true, reduction = "mean",
      path = "x", limit = math.huge, pair = {} }, checked)
    checked.betas[1] = 0
    assert.are.equal(0.9, with({}).betas[1])
    assert.are.same({ path = "x" }, given)
  end)

  it("keeps false", function() assert.is_false(with({ nesterov = false }).nesterov) end)

  it("names an unknown option, the nearest and all legal ones", function()
    local message = problem { stpes = 3 }
    assert.matches('thing: unknown option "stpes" %(did you mean "steps"%?%)', message)
    assert.matches("legal: betas, collate, limit, lr, nesterov, pair, path, reduction, steps", message)
    assert.no_match("did you mean", problem { zzzzzzzz = 3 })
    assert.matches("unknown option 1", problem { "positional" })
  end)

  it("reports every problem at once", function()
    local message = problem { lr = -1, steps = 2.5, colour = 1 }
    for _, word in ipairs { "lr: ", "steps: ", '"colour"' } do assert.matches(word, message) end
  end)

  it("points at the line that called the caller", function()
    assert.matches("^tests/options_spec.lua:%d+: thing", problem { lr = -1 })
  end)

  it("takes whole floats as integers, and nothing else", function()
    assert.are.equal("integer", math.type(with({ steps = 16.0 }).steps))
    assert.are.same({ 1, 2 }, with({ pair = { 1.0, 2 } }).pair)
    for _, bad in ipairs { 16.5, 0 / 0, 2 ^ 63, math.huge, "3" } do
      assert.matches("steps: expected an integer", problem { steps = bad })
    end
  end)

  it("checks bounds, also of each element of a list", function()
    assert.matches("lr: expected a number at least 0, got %-1", problem { lr = -1 })
    assert.matches("lr: expected a number at least 0, got NaN", problem { lr = 0 / 0 })
    assert.matches("betas%[2%]: expected a number at least 0 and below 1, got 1", problem { betas = { 0, 1 } })
    assert.matches("limit: expected a number above 0, got 0", problem { limit = 0 })
    assert.are.same({ 0, 0.5 }, with({ betas = { 0, 0.5 } }).betas)
    assert.matches("steps: expected an integer at least 1, got 0", problem { steps = 0 })
  end)

  it("checks the length and the elements of lists", function()
    assert.matches("betas: expected 2 values, got 1", problem { betas = { 0.5 } })
    assert.matches('betas%[1%]: expected a number, got "a"', problem { betas = { "a", 0.5 } })
    assert.matches("betas: expected a list", problem { betas = { x = 1 } })
  end)

  it("checks types and choices", function()
    assert.matches('lr: expected a number at least 0, got "1"', problem { lr = "1" })
    assert.matches("nesterov: expected a boolean, got 1", problem { nesterov = 1 })
    assert.matches('reduction: expected one of "none", "mean", "sum"; got "max"', problem { reduction = "max" })
    assert.matches("collate: expected a callable, got 3", problem { collate = 3 })
    assert.are.equal(print, with({ collate = print }).collate)
  end)

  it("asks for what is required", function()
    assert.error_matches(function() options.check("thing", nil, schema) end, "thing: path: is required")
  end)

  it("refuses what is no table", function()
    assert.error_matches(function() options.check("thing", 3, {}) end, "expected a table of options, got 3")
  end)

  it("knows tensors and alternatives", function()
    local own = { w = { required = false, type = "tensor|number" } }
    assert.is_true(optlua.is_tensor(options.check("t", { w = optlua.ones(1) }, own).w))
    assert.are.equal(2, options.check("t", { w = 2 }, own).w)
    assert.error_matches(function() options.check("t", { w = "x" }, own) end, 'expected a tensor or a number, got "x"')
  end)
end)

describe("an object in place of options", function()
  it("is named in one line, without what is in it", function()
    local _, problems = options.collect(require("optlua").optim.SGD {}, { a = 1 })
    assert.same({ "expected a table of options, got SGD " }, problems)
    assert.same({ a = 2 }, (options.collect(setmetatable({ a = 2 }, { __tostring = function() return "mine" end }), { a = 1 })))
  end)
end)

describe("options.collect", function()
  it("does not raise", function()
    local checked, problems = options.collect({ lr = -1, steps = 3 }, { lr = { default = 1, min = 0 }, steps = 1 })
    assert.are.same({ steps = 3 }, checked)
    assert.are.equal(1, #problems)
  end)
end)

describe("options.nearest", function()
  it("counts a swap of neighbours as one letter", function()
    assert.are.equal("wd", options.nearest("dw", { "lr", "wd" }))
    assert.are.equal("weight_decay", options.nearest("wieght_decay", { "lr", "weight_decay", "eps" }))
    assert.are.equal("AdamW", options.nearest("adamw", { "Adam", "AdamW" }))
  end)
  it("gives nothing when nothing is near", function()
    assert.is_nil(options.nearest("momentum", { "lr", "eps" }))
    assert.is_nil(options.nearest("x", {}))
    assert.is_nil(options.nearest(("x"):rep(100), { "x" }))
  end)
end)

describe("options.unknown", function()
  it("knows what others call an option", function()
    local legal = { "lr", "weight_decay" }
    assert.equal('unknown option "wd" (did you mean "weight_decay"?); legal: lr, weight_decay', options.unknown("option", "wd", legal))
    assert.matches('^unknown option "learning_rate" %(did you mean "lr"%?%)', options.unknown("option", "learning_rate", legal))
    assert.equal('unknown option "wd"; legal: lr', options.unknown("option", "wd", { "lr" }))
  end)
end)
