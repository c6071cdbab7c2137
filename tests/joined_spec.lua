-- Several optimizers, or schedulers, as one.
local optlua = require "optlua"
local joined = require "optlua.spec.joined"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").containing

-- Two models, of which optimizers of two classes have two forms; a few updates of each.
local function make(...)
  local models, list = {}, {}
  for k, class in ipairs { ... } do
    optlua.manual_seed(k)
    local model = nn.Linear(2, 2)
    local optimizer = optim.container(model, class, { lr = 0.1 })
    for _ = 1, 3 do
      optimizer:zero_grad()
      model(optlua.ones { 1, 2 }):square():sum():backward()
      optimizer:step()
    end
    models[k], list["o" .. k] = model, optimizer
  end
  return joined.optimizers(list), models, list
end

local function weights(models)
  local list = {}
  for k, model in ipairs(models) do list[k] = model.weight:clone() end
  return list
end

local function same(a, b)
  for k, tensor in ipairs(a) do
    if not tensor:equal(b[k]) then return false end
  end
  return true
end

describe("joined optimizers", function()
  it("are in the form for evaluation together, and go back", function()
    local all, models, list = make("ScheduleFreeSGD", "SGD", "ScheduleFreeAdamW")
    local trained = weights(models)
    assert.equal("train", all:_mode())
    local seen = all:_evaluated(function()
      for _, k in ipairs { 1, 3 } do
        assert.equal("eval", list["o" .. k]:_mode())
        assert.is_false(models[k].weight:equal(trained[k]))
      end
      return "seen"
    end)
    assert.equal("seen", seen)
    assert.is_true(same(trained, weights(models)))
    list.o1:eval()
    list.o3:eval()
    assert.equal("eval", all:_mode())
    all:train()
    assert.is_true(same(trained, weights(models)))
    assert.is_nil((make("SGD", "Adam")):_mode())
  end)

  it("load what they saved, by name", function()
    local all = make("Adam", "SGD")
    local other, _, list = make("Adam", "SGD")
    list.o1.groups.default.lr = 0.5
    other:load_state_dict(all:state_dict())
    assert.equal(0.1, list.o1.groups.default.lr)
    local state = all:state_dict()
    state["o1/group.default.lr"], state["o2/group.default.lr"], state.nobody = 0.7, nil, 1
    fails("unexpected: nobody", other.load_state_dict, other, state)
    assert.equal(0.1, list.o1.groups.default.lr)
    local _, report = other:_prepare(state, false)
    assert.same({ missing = { "o2/group.default.lr" }, unexpected = { "nobody" } }, report)
  end)
end)

describe("joined optimizers", function()
  it("may have names with slashes, one of which begins another", function()
    local _, _, list = make("AdamW", "SGD")
    local all = joined.optimizers { ["gen"] = list.o1, ["gen/a"] = list.o2 }
    local saved = all:state_dict()
    local _, _, others = make("AdamW", "SGD")
    joined.optimizers({ ["gen"] = others.o1, ["gen/a"] = others.o2 }):load_state_dict(saved)
    assert.same(list.o2:state_dict().updates, others.o2:state_dict().updates)
  end)
end)

describe("joined schedulers", function()
  it("load what they saved, by name or number; one that was not saved is named", function()
    local function two()
      local model = nn.Linear(2, 2)
      local a, b = optim.SGD(model, { lr = 0.4 }), optim.SGD(nn.Linear(2, 2), { lr = 0.4 })
      local plateau = { mode = "min", patience = 0 }
      return optim.lr_scheduler(a, optlua.schedule.ReduceLROnPlateau(plateau)), optim.lr_scheduler(b, optlua.schedule.ReduceLROnPlateau(plateau))
    end
    local a, b = two()
    for _ = 1, 3 do a:step(1) end
    b:step(1)
    local saved = joined.schedulers({ a, b }):state_dict()
    local c, d = two()
    assert.same({}, joined.schedulers({ c, d }):load_state_dict(saved))
    assert.same({ a:state_dict(), b:state_dict() }, { c:state_dict(), d:state_dict() })
    fails("scheduler 3 was not saved", function() joined.schedulers({ c, d, a }):load_state_dict(saved) end)
  end)
end)
