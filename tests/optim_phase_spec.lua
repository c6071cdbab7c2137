-- What an optimizer can be asked for while it is in the middle of something.
local fails = require("fails").matching
local optlua = require "optlua"
local small = require "small"
local nn, optim = optlua.nn, optlua.optim
local make, train, bits = small.make, small.train, small.bits

local always = { "zero_grad", "stats", "plan", "explain", "preview", "register_step_pre_hook", "register_step_post_hook" }

-- The methods of an optimizer that a script can call.
local function list_methods()
  local names, skip = {}, { new = true }
  for _, name in ipairs(always) do skip[name] = true end
  for name, value in pairs(require "optlua.optim.optimizer") do
    if type(value) == "function" and not name:find "^_" and not skip[name] then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- Each method with arguments that are right, in a phase: it is refused, unless it is in `legal`.
local function try_all(optimizer, state, legal, why)
  local nothing = function() return 0 end
  local arguments = { step = { nothing }, add_group = { { params = { optlua.zeros(1, { requires_grad = true }) } } },
    load_state_dict = { state }, run = { "reset" }, with_eval = { nothing }, with_ema = { nothing }, with_swa = { nothing } }
  for _, name in ipairs(list_methods()) do
    if not (" " .. legal .. " "):find(" " .. name .. " ", 1, true) then
      fails(("%s: %s"):format(name, why), optimizer[name], optimizer, table.unpack(arguments[name] or {}))
    end
  end
end

-- A class that has everything: two forms, a rule with a name.
local Both = optim.transform(optim.ScheduleFreeSGD, {
  name = "Both",
  update = function(p, g, _, _, inner_update) return inner_update(p, g) end,
  reset = function(p) return 0 * p end,
})

local function trained(class, options) return train(make(class, options), 3) end

describe("an optimizer", function()
  it("with averages in the model refuses all that would take them for weights", function()
    for kind, given in pairs { ema = trained(Both, { ema = 0.9 }), swa = trained(optim.swa(Both), { lr = 0.1 }) } do
      local optimizer, before = given.optimizer, bits(given)
      local state = optimizer:state_dict()
      local with, swap = "with_" .. kind, "swap_" .. kind
      optimizer[with](optimizer, function()
        try_all(optimizer, state, with .. " with_eval", ("not inside with_%s, where the model holds averages"):format(kind))
        assert.equal(3, optimizer[with](optimizer, function() return 3 end))
        optimizer:with_eval(function() assert.not_equal(before, bits(given)) end)
      end)
      assert.equal(before, bits(given))
      optimizer[swap](optimizer)
      try_all(optimizer, state, ("%s %s with_eval"):format(with, swap), ("not while the model holds averages; %s%%(%%)"):format(swap))
      optimizer[swap](optimizer)
      assert.equal(before, bits(given))
      optimizer:load_state_dict(state)
      assert.equal(3, optimizer:stats().updates)
    end
  end)

  it("with parameters in the form for evaluation says what is to be called first", function()
    local given = trained(Both, { ema = 0.9 })
    local optimizer, before = given.optimizer, bits(given)
    optimizer:eval()
    try_all(optimizer, optimizer:state_dict(), "eval train state_dict load_state_dict add_group run with_eval",
      "not while parameters have the form for evaluation; call train%(%) of the optimizer first")
    fails("with_ema: not while parameters have the form", optimizer.with_eval, optimizer, print)
    optimizer:train()
    assert.equal(before, bits(given))
  end)

  it("inside with_eval saves, and nothing else", function()
    local given = trained(Both)
    local optimizer, before, state = given.optimizer, bits(given), given.optimizer:state_dict()
    optimizer:with_eval(function()
      try_all(optimizer, state, "state_dict with_eval", "not inside with_eval")
      assert.equal("eval", optimizer:state_dict()["group.default.mode"])
      optimizer:with_eval(function() assert.not_equal(before, bits(given)) end)
    end)
    assert.equal(before, bits(given))
  end)

  it("within a step refuses what changes it, whether closures and steps are its class's or not", function()
    for _, class in ipairs { Both, optim.sam(Both) } do
      local given = make(class, { ema = 0.9 })
      local optimizer, calls = given.optimizer, 0
      local state = optimizer:state_dict()
      local function closure()
        calls = calls + 1
        try_all(optimizer, state, "state_dict", "not from its own step")
        optimizer:zero_grad()
        local loss = nn.functional.mse_loss(given.model(small.x), small.y)
        loss:backward()
        return loss
      end
      optimizer:step(closure)
      assert.is_true(calls > 0)
      assert.equal(1, optimizer:stats().updates)
    end
  end)

  it("refuses in hooks what changes the step; after it averages can be looked at", function()
    local given = trained(Both, { ema = 0.9 })
    local optimizer, seen = given.optimizer, nil
    local state = optimizer:state_dict()
    local first = optimizer:register_step_pre_hook(function(self) try_all(self, state, "state_dict", "not from a hook of its step") end)
    local second = optimizer:register_step_post_hook(function(self)
      try_all(self, state, "state_dict with_eval with_ema with_swa", "not from a hook of its step")
      local now = bits(given)
      seen = self:with_ema(function()
        fails("step: not inside with_ema", self.step, self)
        return now ~= bits(given)
      end)
      assert.equal(now, bits(given))
      fails("step: not from a hook", self.step, self)
    end)
    train(given, 1)
    assert.is_true(seen)
    first:remove()
    second:remove()
    assert.equal(5, train(given, 1).optimizer:stats().updates)
  end)

  it("does not call a closure when it cannot step", function()
    for _, class in ipairs { optim.ScheduleFreeSGD, optim.sam "ScheduleFreeSGD" } do
      local given = make(class)
      given.optimizer:eval()
      fails("step: not while parameters have the form", given.optimizer.step, given.optimizer, function() error "it was called" end)
    end
  end)
end)
