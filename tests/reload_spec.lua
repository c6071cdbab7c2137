-- Changes of script and config files while a run goes on: with real processes, on SIGHUP and with --watch.
local decode = require("optlua.core").hidden.json_decode
local files = require "files"
local process = require "process"

-- A run that stops at steps 3, 6, 9 until the test has changed something. CONFIG stands for the config's last lines.
local SCRIPT = [[
local optlua = require "optlua"
local function exists(name)
  local file = io.open(name)
  if file then file:close() end
  return file ~= nil
end
optlua.optim.register("Mine", optlua.optim.define { name = "Mine", hyper = { lr = 0.1 }, update = function(p, g, s, h) return p - h.lr * g end })
optlua.randn(5)
return optlua.spec {
  name = "line",
  config = { seed = 1, steps = 12, batch_size = 4, shuffle = false, tensorboard = false, CONFIG },
  build_model = function() return optlua.nn.Linear(1, 1) end,
  build_data = function() return optlua.data.tensors(optlua.ones(64, 1), optlua.zeros(64, 1)) end,
  build_loss = function() return optlua.nn.MSELoss() end,
  on_step = function(state)
    if state.step % 3 ~= 0 or state.step == 12 then return end
    local values = {}
    for _, group in pairs(state.optimizers.groups) do
      for _, name in ipairs { "lr", "momentum", "weight_decay" } do
        if pcall(function() return group[name] end) then values[#values + 1] = ("%s.%s=%.10g"):format(group.name, name, group[name]) end
      end
    end
    print("step " .. state.step .. ": " .. table.concat(values, " ") .. " max_norm=" .. tostring(state.optimizers._clip.max_norm))
    io.stdout:flush()
    io.open("at" .. state.step, "w"):close()
    while not exists("go" .. state.step) do os.execute "sleep 0.02" end
  end,
}
]]

local function script(config) return (SCRIPT:gsub("CONFIG", { CONFIG = config })) end

local DEFAULT = 'optimizer = { class = "SGD", lr = 0.5, momentum = 0.9 }'

-- Runs a script; changes[k] holds files that are written at step 3 k, before SIGHUP. visit(lines, result, folder).
local function with_changes(first, changes, visit, words)
  files.with_folder(function(folder)
    files.write(folder .. "/run.lua", first)
    files.write(folder .. "/more.yaml", "{}\n")
    local shell = { ("optlua run.lua --out out %s >log 2>&1 & pid=$!"):format(words or "") }
    for k = 1, 3 do
      shell[#shell + 1] = ("until [ -e at%d ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done"):format(3 * k)
      for name, text in pairs(changes[k] or {}) do
        files.write(("%s/%s.%d"):format(folder, name, k), text)
        shell[#shell + 1] = ("mv %s.%d %s"):format(name, k, name)
      end
      if changes[k] then shell[#shell + 1] = words == "--watch" and "sleep 1.1" or "kill -HUP $pid" end
      shell[#shell + 1] = ("touch go%d"):format(3 * k)
    end
    shell[#shell + 1] = "wait $pid; echo status $?; cat log"
    local result = process.run(folder, table.concat(shell, "\n"))
    local lines = {}
    for line in result.out:gmatch "[^\n]+" do
      if line:find "^reload" or line:find "^step %d+:" then lines[#lines + 1] = line end
    end
    assert.matches("^status 0\n", result.out)
    visit(lines, result, folder)
  end)
end

describe("on SIGHUP", function()
  it("hyperparameters, max_norm and schedules are taken over, printed and logged", function()
    with_changes(script(DEFAULT), {
      { ["run.lua"] = script 'optimizer = { class = "SGD", lr = 0.25, momentum = 0.8, max_norm = 2 }' },
      { ["run.lua"] = script 'optimizer = { class = "SGD", lr = 0.25 }, lr_scheduler = { class = "constant", factor = 0.5 }' },
      { ["run.lua"] = script 'optimizer = { class = "SGD", lr = 0.25 }, lr_scheduler = { class = "constant", factor = 0.5 }' },
    }, function(lines, _, folder)
      assert.same({
        "step 3: default.lr=0.5 default.momentum=0.9 default.weight_decay=0 max_norm=nil",
        "reload: max_norm: 2, was none",
        "reload: lr of group default: 0.25, was 0.5",
        "reload: momentum of group default: 0.8, was 0.9",
        "step 6: default.lr=0.25 default.momentum=0.8 default.weight_decay=0 max_norm=2",
        "reload: max_norm: none, was 2",
        "reload: momentum of group default: 0, was 0.8",
        "reload: lr_scheduler: another schedule",
        "step 9: default.lr=0.125 default.momentum=0 default.weight_decay=0 max_norm=nil",
        "reload: nothing has changed",
      }, lines)
      local seen, rates = {}, {}
      for line in io.lines(folder .. "/out/log.jsonl") do
        local record = decode(line)
        if record.change then seen[#seen + 1] = record.step .. " " .. record.change elseif not record.event then rates[record.step] = record["lr.default"] end
      end
      assert.same({ "3 max_norm: 2, was none", 7 }, { seen[1], #seen })
      assert.same({ 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125 }, table.move(rates, 1, 7, 1, {}))
    end)
  end)

  it("values that depend on each other are taken over together, or not at all", function()
    local sgd = 'optimizer = { class = "SGD", lr = 0.5, momentum = %g, nesterov = %s }'
    with_changes(script(sgd:format(0.9, "true")), {
      { ["run.lua"] = script(sgd:format(0, "false")) },
      { ["run.lua"] = script(sgd:format(0, "true")) },
      { ["run.lua"] = script(sgd:format(0.8, "true")) },
    }, function(lines)
      assert.same({
        "step 3: default.lr=0.5 default.momentum=0.9 default.weight_decay=0 max_norm=nil",
        "reload: momentum of group default: 0, was 0.9",
        "reload: nesterov of group default: false, was true",
        "step 6: default.lr=0.5 default.momentum=0 default.weight_decay=0 max_norm=nil",
        "reload: group 'default': nesterov needs a momentum and no dampening; the run goes on as it was",
        "step 9: default.lr=0.5 default.momentum=0 default.weight_decay=0 max_norm=nil",
        "reload: momentum of group default: 0.8, was 0",
        "reload: nesterov of group default: true, was false",
      }, lines)
    end)
  end)

  it("what groups of the optimizer's class leave out", function()
    local config = 'optimizer = { class = "SGD", lr = %s }, groups = { { name = "all", match = "*", class = "SGD" } }'
    with_changes(script(config:format "0.5"), { { ["run.lua"] = script(config:format "0.25") } }, function(lines)
      assert.equal("reload: lr of group all: 0.25, was 0.5", lines[2])
    end)
  end)

  it("values of groups, their scales, and config files", function()
    local groups = 'optimizer = { class = "SGD", lr = 0.5 }, groups = { { name = "b", match = "*.bias", %s }, { name = "w", match = "*" } }'
    with_changes(script(groups:format "lr_scale = 2"), {
      { ["run.lua"] = script(groups:format "lr_scale = 4, weight_decay = 0.125") },
      { ["more.yaml"] = "optimizer:\n  lr: 0.25\n" },
      { ["more.yaml"] = "groups:\n  w:\n    lr: 1\n" },
    }, function(lines)
      assert.same({
        "step 3: b.lr=1 b.momentum=0 b.weight_decay=0 w.lr=0.5 w.momentum=0 w.weight_decay=0 max_norm=nil",
        "reload: lr of group b: 2.0, was 1.0",
        "reload: weight_decay of group b: 0.125, was 0",
        "step 6: b.lr=2 b.momentum=0 b.weight_decay=0.125 w.lr=0.5 w.momentum=0 w.weight_decay=0 max_norm=nil",
        "reload: lr of group b: 1.0, was 2.0",
        "reload: lr of group w: 0.25, was 0.5",
        "step 9: b.lr=1 b.momentum=0 b.weight_decay=0.125 w.lr=0.25 w.momentum=0 w.weight_decay=0 max_norm=nil",
        "reload: lr of group b: 2.0, was 1.0",
        "reload: lr of group w: 1, was 0.25",
      }, lines)
    end, "--config more.yaml")
  end)

  it("what is broken is said, changes nothing, and the run goes on", function()
    with_changes(script(DEFAULT), {
      { ["run.lua"] = "x = = 1" },
      { ["run.lua"] = script 'optimizer = { class = "SGD", lr = 0.25, momentum = -1 }' },
      { ["run.lua"] = script 'optimizer = { class = "SGD", lrr = 0.25 }' },
    }, function(lines)
      assert.equal("reload: run.lua:1: unexpected symbol near '='; the run goes on as it was", lines[2])
      assert.matches("^reload: .*momentum.*; the run goes on as it was$", lines[4])
      assert.matches('^reload: .*unknown option "lrr".*; the run goes on as it was$', lines[6])
      for _, k in ipairs { 1, 3, 5 } do assert.matches("default.lr=0.5 default.momentum=0.9", lines[k]) end
    end)
    with_changes(script(DEFAULT), { { ["run.lua"] = "return 5" }, { ["run.lua"] = "error 'at the top'" },
      { ["run.lua"] = script 'optimizer = { class = "SGD", lr = 0.125 }' } }, function(lines)
      assert.equal("reload: run.lua returns no spec any more; the run goes on as it was", lines[2])
      assert.equal("reload: run.lua:1: at the top; the run goes on as it was", lines[4])
      assert.equal("reload: lr of group default: 0.125, was 0.5", lines[6])
    end)
  end)

  it("what cannot change in a run is named", function()
    local groups = 'optimizer = { class = "SGD", lr = 0.5 }, groups = { { name = "b", match = "%s" }, { name = "%s", match = "*" } }'
    with_changes(script(groups:format("*.bias", "w")), {
      { ["run.lua"] = script(groups:format("*.weight", "w")):gsub("batch_size = 4", "batch_size = 8") },
      { ["run.lua"] = script(groups:format("*.weight", "other")) },
      { ["run.lua"] = script(groups:format("*.weight", "other"):gsub('"SGD", lr = 0.5', '"Mine", lr = 0.5, ema = 0.5')) },
    }, function(lines)
      local said = {}
      for _, line in ipairs(lines) do said[#said + 1] = line:match "^reload: (.*) has changed too; that takes a new run$" end
      assert.same({ "batch_size", "groups.b.match", "groups", "optimizer.class", "optimizer.ema", "groups" }, said)
    end)
  end)

  it("does not touch the numbers of the run", function()
    local function weights(changes)
      local bytes
      local noisy = script(DEFAULT):gsub("optlua.nn.Linear%(1, 1%)", "optlua.nn.Sequential { optlua.nn.Linear(1, 8), optlua.nn.Dropout(0.5), optlua.nn.Linear(8, 1) }")
      with_changes(noisy, changes, function(_, _, folder)
        bytes = files.read(folder .. "/out/last.safetensors")
      end)
      return bytes
    end
    assert.equal(weights {}, weights { {}, {}, {} })
  end)
end)

-- The config in the last checkpoint.
local function saved_config(folder)
  local text = process.read(process.run(folder, "ls -d $PWD/out/checkpoints/* | tail -1").out:gsub("\n", "") .. "/run.json")
  return load(decode(text).extra.config, "config", "t", { null = "null" })()
end

describe("a checkpoint after changes", function()
  it("holds the config that held: what changed, and not what was left or failed", function()
    local broken = script('optimizer = { class = "Mine", lr = 0.25, ema = 0.5 }, lr_scheduler = { class = "constant", factor = 0.5 }')
      :gsub("batch_size = 4", "batch_size = 8")
    with_changes(script(DEFAULT), { { ["run.lua"] = broken } }, function(lines, _, folder)
      assert.equal("reload: lr of group default: 0.25, was 0.5", lines[2])
      local config = saved_config(folder)
      assert.equal(4, config.batch_size)
      assert.same({ class = "SGD", lr = 0.25, ema = "null" }, config.optimizer)
      assert.same({ class = "constant", factor = 0.5 }, config.lr_scheduler)
    end)
  end)

  it("holds values of groups", function()
    local groups = 'optimizer = { class = "SGD", lr = 0.5 }, groups = { { name = "b", match = "*.%s", lr_scale = %d }, { name = "w", match = "*" } }'
    with_changes(script(groups:format("bias", 2)), { { ["run.lua"] = script(groups:format("weight", 4)) } }, function(_, _, folder)
      assert.same({ { name = "b", match = "*.bias", lr_scale = 4 }, { name = "w", match = "*" } }, saved_config(folder).groups)
    end)
  end)
end)

describe("a change that cannot be made", function()
  it("is tried again, and is not in the config", function()
    local failing = script(DEFAULT):gsub("^", [[
      local optim = require("optlua").optim
      local make = optim.lr_scheduler
      rawset(optim, "lr_scheduler", function(...)
        if count == 1 then error("not yet", 0) end
        return make(...)
      end)
      count = (count or -1) + 1
    ]])
    local changed = failing:gsub("momentum = 0.9 }", "%0, lr_scheduler = { class = 'constant', factor = 0.5 }")
    with_changes(failing, { { ["run.lua"] = changed }, {} }, function(lines)
      assert.equal("reload: lr_scheduler: another schedule: not yet; it stays as it was", lines[2])
      assert.equal("reload: lr_scheduler: another schedule", lines[4])
    end)
  end)
end)

describe("with --watch", function()
  it("changes are seen without a signal", function()
    with_changes(script(DEFAULT), { { ["run.lua"] = script 'optimizer = { class = "SGD", lr = 0.25, momentum = 0.9 }' }, {} }, function(lines)
      assert.equal("reload: lr of group default: 0.25, was 0.5", lines[2])
      assert.matches("^step 6: default.lr=0.25 ", lines[3])
      assert.equal(4, #lines)
    end, "--watch")
  end)
end)

describe("a run with several optimizers", function()
  it("takes over the sections of each", function()
    local text = SCRIPT:gsub("state.optimizers.groups", "state.optimizers.a.groups"):gsub("state.optimizers._clip", "state.optimizers.a._clip")
      :gsub("build_model = .-end,", [[build_model = function()
        local net = optlua.nn.Linear(1, 1)
        function net:configure_optimizers(make)
          local a = make.optimizers.a(self)
          return { a = a }, { a = make.lr_schedulers.a(a) }
        end
        return net
      end,
      train_step = function(state, batch)
        local loss = state.loss_fn(state.model(batch[1]), batch[2])
        state.optimizers.a:zero_grad()
        loss:backward()
        state.optimizers.a:step()
        return loss
      end,]])
    local function with(config) return (text:gsub("CONFIG", { CONFIG = config })) end
    local constant = ', lr_schedulers = { a = { class = "constant", factor = %s } }'
    with_changes(with('optimizers = { a = { class = "SGD", lr = 0.5 } }' .. constant:format "1"), {
      { ["run.lua"] = with('optimizers = { a = { class = "SGD", lr = 0.25, max_norm = 1 } }' .. constant:format "0.5") },
      { ["run.lua"] = with('optimizers = { a = { class = "Adam", lr = 0.25, max_norm = 1 }, b = { class = "SGD" } }' .. constant:format "0.5") },
    }, function(lines)
      assert.same({ "reload: max_norm: 1, was none", "reload: lr of group default: 0.25, was 0.5" }, { lines[2], lines[3] })
      assert.equal("reload: lr_schedulers.a: another schedule", lines[4])
      assert.matches("^step 6: default.lr=0.125 .* max_norm=1$", lines[5])
      assert.same({ "reload: optimizers.a.class has changed too; that takes a new run", "reload: optimizers.b has changed too; that takes a new run" },
        { lines[6], lines[7] })
    end)
  end)
end)
