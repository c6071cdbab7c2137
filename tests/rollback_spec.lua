-- Rollback: a run goes back to the state that it kept, whole, from losses and gradients that are not finite.
local optlua = require "optlua"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching

-- Everything that goes back, as text.
local function everything(state)
  local list = { tostring(state.step), tostring(state.loss) }
  local function add(name, value)
    if optlua.is_tensor(value) then value = table.concat(value:detach():contiguous():reshape(-1):totable(), " ") end
    if type(value) == "table" then
      for key, item in pairs(value) do add(name .. "." .. tostring(key), item) end
    else
      list[#list + 1] = name .. "=" .. tostring(value)
    end
  end
  for name, value in pairs(state.model:state_dict()) do add(name, value) end
  for name, tensor in state.model:named_parameters() do add("wants." .. name, tensor.requires_grad) end
  add("optimizer", state.optimizers:state_dict())
  add("scheduler", state.lr_schedulers:state_dict())
  add("rng", optlua.get_rng_state())
  table.sort(list)
  return table.concat(list, "\n")
end

-- A run in which what happens at some calls of train_step is not finite; notes the steps, with their calls.
local function run(bad, overrides, more)
  local calls, notes, poisoned = 0, {}, nil
  local fields = {
    name = "rollback",
    config = { seed = 1, epochs = 2, batch_size = 2, rollback_every = 3, max_skipped = 3,
      optimizer = { class = "AdamW", lr = 0.1, nonfinite = "rollback", ema = 0.5 }, lr_scheduler = { class = "linear", to = 0 } },
    build_model = function() return nn.Sequential { nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3) } end,
    build_data = function() return optlua.testing.points { n = 16 } end,
    build_loss = function() return nn.CrossEntropyLoss() end,
    train_step = function(state, batch, default)
      calls = calls + 1
      if more and more.before then more.before(state, calls) end
      local loss, count = default(state, batch)
      if bad[calls] == "loss" then loss = loss * (0 / 0) end
      if poisoned then poisoned:remove() end
      poisoned = bad[calls] == "gradient" and state.model[4].weight:register_hook(function(g) return g * math.huge end) or nil
      return loss, count
    end,
    on_step = function(state)
      notes[#notes + 1] = state.step .. "@" .. calls
      if more and more.after then more.after(state, calls) end
    end,
  }
  local result = optlua.spec(fields):run(overrides)
  return result, table.concat(notes, " ")
end

describe("rollback", function()
  it("brings back weights, buffers, states, averages, schedules, counts and the generator", function()
    for _, what in ipairs { "loss", "gradient" } do
      local kept, met
      local result, notes = run({ [5] = what }, nil, {
        after = function(state) if state.step == 3 then kept = kept or everything(state) end end,
        before = function(state, calls) if calls == 6 then met = everything(state) end end,
      })
      assert.equal("1@1 2@2 3@3 4@4 4@6 5@7 6@8 7@9 8@10 9@11 10@12 11@13 12@14 13@15 14@16", notes)
      assert.equal(14, result.state.optimizers:stats().updates)
      assert.equal(kept, met)
    end
  end)

  it("works from the first batch on, and more than once from one state", function()
    local _, notes = run({ [1] = "loss", [2] = "gradient", [5] = "loss", [6] = "gradient" }, { epochs = 1, max_skipped = 5 })
    assert.equal("1@3 2@4 1@7 2@8", notes)
  end)

  it("in a row, or in a circle, ends the run and names the parameter", function()
    fails("3 updates in a row were skipped .*; the last: the loss is %-?nan at update 3 .*: the parameters are finite; of their gradients "
      .. "that of '0.weight' is the first that is not", run, { [4] = "loss", [5] = "loss", [6] = "loss" })
    fails("; the last: the gradient of parameter '3.weight' is not finite", run, { [4] = "loss", [5] = "loss", [6] = "gradient" })
    fails("3 updates in a row", run, { [5] = "loss", [7] = "loss", [9] = "loss" })
    local _, notes = run({ [5] = "loss", [6] = "loss", [9] = "loss", [10] = "loss" }, { epochs = 1, rollback_every = 1 })
    assert.equal("1@1 2@2 3@3 4@4 5@7 6@8", notes)
  end)

  it("puts parameters to sleep again that were woken since", function()
    local groups = { { name = "late", match = "0.*", unfreeze_at = 4 }, { name = "rest", match = "*" } }
    local asleep = {}
    run({ [6] = "loss" }, { groups = groups }, {
      before = function(state, calls) asleep[calls] = not state.model[1].weight.requires_grad end,
    })
    assert.same({ true, true, true, true, false, false, true, false }, { table.unpack(asleep, 1, 8) })
  end)

  it("belongs to a loop: an optimizer alone refuses it", function()
    fails('nonfinite.*"rollback"', optim.container, nn.Linear(1, 1), "SGD", { nonfinite = "rollback" })
  end)

  describe("of several optimizers that the model made", function()
    local Pair = nn.class "Pair"
    function Pair:init()
      self.a = nn.Linear(4, 4)
      self.b = nn.Linear(4, 3)
    end
    function Pair:forward(x) return self.b(self.a(x)) end
    function Pair:configure_optimizers(make)
      local a, b = make.optimizers.a(self.a), make.optimizers.b(self.b)
      return { a = a, b = b }, { a = make.lr_schedulers.a(a) }
    end

    local function several(state)
      local list = { tostring(state.step) }
      for name, value in pairs(require("optlua.spec.keeper").parts(state).optimizer:state_dict()) do
        list[#list + 1] = name .. "=" .. (optlua.is_tensor(value) and table.concat(value:reshape(-1):totable(), " ") or tostring(value))
      end
      for name, value in pairs(state.model:state_dict()) do list[#list + 1] = name .. "=" .. table.concat(value:reshape(-1):totable(), " ") end
      table.sort(list)
      return table.concat(list, "\n"):gsub("table: 0x%x+", "")
    end

    -- What happens to the loss at some calls; notes steps with calls, and the state after and before them.
    local function train(bad, nonfinite)
      local calls, notes, after, before = 0, {}, {}, {}
      local result = optlua.spec {
        name = "several",
        config = { seed = 1, epochs = 1, batch_size = 2, rollback_every = 2, max_skipped = 3,
          optimizers = { a = { class = "AdamW", lr = 0.1, nonfinite = nonfinite }, b = { class = "SGD", lr = 0.1, momentum = 0.9, nonfinite = nonfinite == "skip" and "skip" or nil } },
          lr_schedulers = { a = { class = "linear", to = 0 } } },
        build_model = function() return Pair() end,
        build_data = function() return optlua.testing.points { n = 16 } end,
        build_loss = function() return nn.CrossEntropyLoss() end,
        train_step = function(state, batch)
          calls = calls + 1
          before[calls] = several(state)
          local loss = state.loss_fn(state.model(batch[1]), batch[2])
          if bad[calls] then loss = loss * (0 / 0) end
          loss:backward()
          for _, name in ipairs { "a", "b" } do
            state.optimizers[name]:step()
            state.optimizers[name]:zero_grad()
          end
          return bad[calls] ~= "silent" and loss or nil
        end,
        on_step = function(state)
          notes[#notes + 1] = state.step .. "@" .. calls
          after[state.step] = several(state)
        end,
      }:run()
      return table.concat(notes, " "), after, before, result
    end

    it("brings all of them back", function()
      for _, how in ipairs { "loss", "silent" } do
        local notes, after, before = train({ [4] = how }, "rollback")
        assert.equal("1@1 2@2 3@3 3@5 4@6 5@7 6@8", notes)
        assert.equal(before[3], before[5])
        assert.is_true(after[3] ~= nil)
      end
    end)

    it("is not what they do otherwise: an error, or updates that are skipped", function()
      fails("the gradient of parameter .weight. is not finite", train, { [4] = "loss" }, nil)
      assert.matches("^1@1 2@2 3@3 4@5 ", (train({ [4] = "loss" }, "skip")))
      fails("3 updates in a row were skipped", train, { "loss", "loss", "loss" }, "rollback")
    end)
  end)

  it("is noted in the log", function()
    local process = require "process"
    local place = process.folder()
    local spec = optlua.spec { name = "x", config = { steps = 3, batch_size = 2, optimizer = { class = "SGD", nonfinite = "rollback" } },
      build_model = function() return nn.Linear(4, 3) end, build_data = function() return optlua.testing.points { n = 16 } end,
      build_loss = function() return nn.CrossEntropyLoss() end,
      train_step = function(state, batch, default)
        local loss, count = default(state, batch)
        return state.loss and not state.kept.hit and rawset(state.kept, "hit", true) and loss * (1 / 0) or loss, count
      end }
    spec:run({}, { out = place })
    local log = process.read(place .. "/log.jsonl")
    process.remove(place)
    assert.matches('"event":"rollback","from":1', log)
    assert.matches('"why":"the loss is inf at update 1', log)
  end)
end)
