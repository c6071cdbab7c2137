-- Checkpoints of runs: a run that goes on from one gives the same bits as one that never stopped.
local optlua = require "optlua"
local checkpoint = optlua.checkpoint
local process = require "process"

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

-- A run as a process, and what it left.
local SCRIPT = [[
local optlua = require "optlua"
local nn = optlua.nn
return optlua.spec {
  name = "resumed",
  config = { seed = 3, epochs = 6, batch_size = 5, accumulate = 2, eval_every = 4, checkpoint_every = 3, keep_last = 100,
    optimizer = { class = "AdamW", lr = 0.01, ema = 0.9 }, lr_scheduler = { class = "warmup_stable_decay", warmup_steps = 3 } },
  build_model = function() return nn.Sequential { nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3) } end,
  build_data = function() return optlua.testing.points { n = 33 }, optlua.testing.points { n = 12, seed = 1 } end,
  build_loss = function() return nn.CrossEntropyLoss() end,
  on_end = function() optlua.randn(5) end,
  on_step = function(state)
    if os.getenv "STOP_AT" == tostring(state.step) then io.popen("kill -" .. os.getenv "STOP_BY" .. " " .. os.getenv "RUN_ID"):close() end
  end,
}
]]

describe("a run", function()
  local function run(words, environment)
    return process.run(place, ("%s sh -c 'RUN_ID=$$ exec optlua script.lua %s'"):format(environment or "", words))
  end

  local function weights(name) return process.read(("%s/%s/last.safetensors"):format(place, name)) end

  before_each(function() process.write(place .. "/script.lua", SCRIPT) end)

  it("that was killed at any step goes on bit for bit", function()
    assert.equal(0, run("--out whole").code)
    for _, at in ipairs { 4, 7, 8, 11, 23 } do
      local name = "killed" .. at
      assert.not_equal(0, run("--out " .. name, "STOP_BY=KILL STOP_AT=" .. at).code)
      local resumed = run(("--out %s --resume"):format(name))
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(weights "whole", weights(name))
      assert.equal(process.read(place .. "/whole/best.safetensors"), process.read(place .. "/" .. name .. "/best.safetensors"))
    end
  end)

  it("counts validations without a better value on where it was", function()
    local words = " --optimizer.lr=0 --optimizer.ema=null --eval_every=2 --patience=4 --epochs=20 --lr_scheduler=null"
    local function last(name) return process.run(place, ("tail -n 1 %s/log.csv"):format(name)).out:match "^%d+" end
    assert.equal(0, run("--out whole" .. words).code)
    local ended = tonumber(last "whole")
    assert.not_equal(0, run("--out part" .. words, "STOP_BY=KILL STOP_AT=" .. ended - 1).code)
    local resumed = run("--out part --resume" .. words)
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(ended, tonumber(last "part"))
    assert.is_true(ended < 80)
  end)

  it("with narrow states, which round at random, or averages goes on bit for bit", function()
    for k, words in ipairs { "--optimizer.state_dtype=bfloat16", "--optimizer.state_dtype=8bit", "--optimizer.state_dtype=8bit-all",
      "--optimizer.ema=null --optimizer=ScheduleFreeAdamW", "--optimizer=Adafactor --optimizer.max_norm=1" } do
      local whole, part = "whole" .. k, "part" .. k
      assert.equal(0, run(("--out %s --steps=20 %s"):format(whole, words)).code, words)
      assert.not_equal(0, run(("--out %s --steps=20 %s"):format(part, words), "STOP_BY=KILL STOP_AT=11").code)
      local resumed = run(("--out %s --resume --steps=20 %s"):format(part, words))
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(weights(whole), weights(part), words)
      assert.equal("they are the same\n", process.run(place, ("optlua ckpt diff %s %s | grep -v extra.config"):format(whole, part)).out)
    end
  end)

  it("that goes on with another number of threads differs by rounding alone", function()
    assert.equal(0, run("--out whole", "OMP_NUM_THREADS=1").code)
    assert.equal(0, run("--out part --steps=9 --lr_scheduler.total_steps=24", "OMP_NUM_THREADS=1").code)
    assert.equal(0, run("--out part --resume --lr_scheduler.total_steps=24", "OMP_NUM_THREADS=3").code)
    local a, b = optlua.load(place .. "/whole/last.safetensors"), optlua.load(place .. "/part/last.safetensors")
    for name, tensor in pairs(a) do
      local gap = (tensor:to "float64" - b[name]:to "float64"):abs():max():item()
      assert(gap < 1e-4, ("%s: %g"):format(name, gap))
    end
  end)

  it("that is asked to end by a signal saves first, and exits as the signal says", function()
    run "--out whole"
    for signal, code in pairs { INT = 130, TERM = 143 } do
      local stopped = run("--out " .. signal, ("STOP_BY=%s STOP_AT=8"):format(signal))
      assert.equal(code, stopped.code, stopped.err)
      assert.matches("stopped: signal", stopped.out)
      assert.matches("saving a checkpoint after this update; again to quit without it", stopped.err)
      assert.matches(("the run is in %s; %%-%%-resume %s goes on with it"):format(signal, signal), stopped.out)
      assert.matches("step%-00000008\n$", process.run(place, "ls " .. signal .. "/checkpoints").out)
      assert.equal(0, run(("--out %s --resume"):format(signal)).code)
      assert.equal(weights "whole", weights(signal))
    end
  end)

  it("that had ended goes on with what it lacks, bit for bit, and prints the same mean losses", function()
    local whole = run "--out whole"
    local function losses(text, seen)
      for epoch, loss in text:gmatch "epoch +(%d+)  step %d+  loss ([%d.]+)" do seen[epoch] = loss end
      return seen
    end
    for i, first in ipairs { "--epochs=2", "--epochs=5", "--steps=8", "--steps=10", "--steps=23" } do
      local name, seen = "ended" .. i, {}
      local fresh = first .. " --lr_scheduler.total_steps=24 --out " .. name
      losses(run(fresh).out, seen)
      local resumed = run("--lr_scheduler.total_steps=24 --resume " .. name)
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(weights "whole", weights(name), first)
      assert.same(losses(whole.out, {})["6"], losses(resumed.out, seen)["6"])
    end
  end)

  it("has a checkpoint after its first epoch", function()
    assert.not_equal(0, run("--out a --checkpoint_every=null", "STOP_BY=KILL STOP_AT=6").code)
    assert.equal("step-00000004\n", process.run(place, "ls a/checkpoints").out)
  end)

  it("is found by its name, its folder and that of its checkpoints: the last that has one", function()
    assert.equal(0, run("--steps=3").code)
    assert.equal(0, run("--steps=5").code)
    assert.not_equal(0, run("", "STOP_BY=KILL STOP_AT=1").code)
    assert.equal("resumed\nresumed-2\nresumed-3\n", process.run(place, "ls runs").out)
    assert.matches("resume: runs/resumed%-2/checkpoints/step%-00000005", run("--steps=6 --resume").out)
    assert.matches("resume: runs/resumed/checkpoints/step%-00000003", run("--steps=6 --resume runs/resumed/checkpoints/").out)
    assert.not_equal(0, run("--steps=6 --optimizer=SGD --out c --resume runs/resumed").code)
    assert.equal("", process.run(place, "ls -d c 2>/dev/null").out)
    assert.matches("these are weights alone, with which %-%-from begins", run("--resume runs/resumed/best.safetensors").err)
  end)

  it("that fails before its first update leaves no folder", function()
    assert.not_equal(0, run("--batch_size=1 --from nowhere").code)
    assert.not_equal(0, run("--batch_size=1").code) -- BatchNorm takes no single item
    assert.not_equal(0, run("--batch_size=1 --out b").code)
    assert.equal("", process.run(place, "ls runs; ls -d b 2>&1 | grep -v 'No such'").out)
  end)

  it("says first that it had another optimizer", function()
    assert.equal(0, run("--steps=3 --out a").code)
    assert.matches("does not fit; nothing was loaded\n  differing: class.default: SGD expected, got AdamW\n", run("--resume a --optimizer=SGD").err)
  end)

  it("keeps the last few checkpoints, and shares its folder with no other run", function()
    assert.equal(0, run("--out a --keep_last=2").code)
    assert.equal("step-00000021\nstep-00000024\n", process.run(place, "ls a/checkpoints").out)
    local lock = checkpoint.lock(place .. "/a")
    local second = run "--out a"
    assert.equal(1, second.code)
    assert.matches("another run is in this folder", second.err)
    lock:close()
  end)

  it("keeps the best one too where keep_best says so, and notes how long each took", function()
    process.write(place .. "/best.lua", [[
      local best = { [8] = 1, [12] = 3, [16] = 2, [20] = 2.5, [24] = 2.75 }
      return require("script"):extend { config = { keep_best = true, keep_last = 1, checkpoint_every = 100, monitor = "score" },
        metrics = { score = { update = function() end, reset = function() end, compute = function() return best[STEP] or 0 end } },
        on_step = function(state) STEP = state.step end }]])
    local result = process.run(place, "optlua best.lua --out a")
    assert.equal(0, result.code, result.err)
    assert.equal("step-00000012\nstep-00000024\n", process.run(place, "ls a/checkpoints").out)
    assert.same({ place .. "/a/checkpoints/step-00000012", 3 }, { checkpoint.best(place .. "/a/checkpoints", "max") })
    local log = process.read(place .. "/a/log.jsonl")
    assert.equal(4, select(2, log:gsub('"event":"checkpoint","seconds":[%d.e-]+,"step":%d+', ""))) -- 4, 8, 12 and the end
    local resumed = process.run(place, "optlua best.lua --out b --resume a/checkpoints/step-00000012")
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(weights "a", weights "b")
  end)

  it("writes checkpoints every so many minutes", function()
    local written = run "--out a --checkpoint_every=null --checkpoint_minutes=1e-9 --steps=3"
    assert.equal(0, written.code, written.err)
    assert.equal("step-00000001\nstep-00000002\nstep-00000003\n", process.run(place, "ls a/checkpoints").out)
  end)

  it("that went on from an earlier step leaves nothing of what came after it", function()
    run "--out whole"
    assert.equal(0, run("--out a --steps=20").code)
    local resumed = run "--out a --resume a/checkpoints/step-00000015"
    assert.equal(0, resumed.code, resumed.err)
    assert.equal("step-00000015\nstep-00000018\nstep-00000021\nstep-00000024\n", process.run(place, "ls a/checkpoints | tail -4").out)
    local steps = process.run(place, [[sed -n 's/^\([0-9]*\),.*/\1/p' a/log.csv]]).out
    local wanted = {}
    for k = 1, 24 do wanted[k] = k .. "\n" end
    assert.equal(table.concat(wanted), steps)
  end)

  it("is not written over by another", function()
    assert.equal(0, run("--out a --steps=2").code)
    local second = run "--out a"
    assert.equal(1, second.code)
    assert.matches("a holds a run already; %-%-resume goes on with it", second.err)
  end)

  it("shows with --plan --diff what going on would change, and changes nothing", function()
    run "--out a --steps=6"
    local before = process.run(place, "cat a/log.csv a/config.lua; ls a a/checkpoints").out
    local plan = run "--plan --diff a --optimizer.lr=0.5 --steps=9"
    assert.equal(0, plan.code, plan.err)
    assert.matches("resume: lr of group default: 0.5, was saved as 0.01", plan.out)
    assert.matches("resume: steps: 9, was saved as 6", plan.out)
    assert.not_matches("batch_size", plan.out:match "with this config:(.*)")
    assert.matches("step 6, epoch", plan.out)
    plan = run "--plan --diff a --optimizer=SGD"
    assert.equal(1, plan.code)
    assert.matches("the state does not fit", plan.err)
    assert.equal(2, run("--diff a").code)
    assert.equal(2, run("--plan --diff nowhere").code)
    assert.equal(before, process.run(place, "cat a/log.csv a/config.lua; ls a a/checkpoints").out)
  end)

  it("goes on with another model through a file of surgery", function()
    assert.equal(0, run("--out a --steps=6").code)
    process.write(place .. "/wide.lua", [[
      local nn = require("optlua").nn
      return require("script"):extend { build_model = function()
        return nn.Sequential { nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3), nn.Linear(3, 3) }
      end }]])
    process.write(place .. "/move.lua", [[return function(saved)
      saved:rename(function(name) return (name:gsub("^3%.", "4.")) end)
      saved.strict = false
    end]])
    local resumed = process.run(place, "optlua wide.lua --out b --resume a --surgery move.lua --steps=9")
    assert.equal(0, resumed.code, resumed.err)
    assert.matches("resume: model: missing: 5.weight, 5.bias\n", resumed.out)
    assert.matches("step%-00000009", process.run(place, "ls b/checkpoints").out)
    local shown = process.run(place, "optlua ckpt show b").out
    assert.matches("optimizer.state.4.weight.step = 9\n", shown)
    assert.matches("optimizer.state.5.weight.step = 3\n", shown)
    assert.matches("%-%-surgery stands beside %-%-resume, %-%-from", process.run(place, "optlua wide.lua --surgery move.lua").err)
    process.write(place .. "/none.lua", "return 1")
    assert.matches("%-%-surgery: none.lua returns no function", process.run(place, "optlua wide.lua --resume a --surgery none.lua").err)
  end)

  it("says key by key what differs; of the checkpoint's values those hold that the policy names", function()
    run "--out a --steps=6 --optimizer.lr=0.5 --batch_size=4 --optimizer.weight_decay=0.2 --accumulate=1"
    local function resumed(words)
      local result = run("--plan --diff a " .. words)
      assert.equal(0, result.code, result.err)
      local list = {}
      for line in result.out:match("with this config:(.*)"):gmatch "resume: ([^\n]*was saved as[^\n]*)" do list[#list + 1] = line end
      table.sort(list)
      return table.concat(list, "; ")
    end
    assert.equal("accumulate: 2, was saved as 1; batch_size: 5, was saved as 4; lr of group default: 0.01, was saved as 0.5; "
      .. "steps: 8, was saved as 6; weight_decay of group default: 0.01, was saved as 0.2", resumed "--steps=8")
    assert.equal("steps: 8, was saved as 6", resumed "--steps=8 --resume-policy=checkpoint")
    assert.equal("batch_size: 6, was saved as 4; lr of group default: 0.25, was saved as 0.5; steps: 8, was saved as 6",
      resumed "--steps=8 --resume-policy=checkpoint --optimizer.lr=0.25 --batch_size=6")
    process.write(place .. "/run.yaml", "optimizer:\n  lr: 0.125\n")
    assert.equal("lr of group default: 0.125, was saved as 0.5; steps: 8, was saved as 6",
      resumed "--steps=8 --resume-policy=checkpoint --config run.yaml")
    assert.equal("accumulate: 2, was saved as 1; batch_size: 5, was saved as 4; lr of group default: 0.01, was saved as 0.5",
      resumed "--resume-policy=checkpoint,optimizer.lr=config,accumulate=config,batch_size=config")
    process.write(place .. "/groups.lua", 'return require("script"):extend { config = { groups = { { name = "all", match = "*", lr = 1 } } } }')
    process.run(place, "optlua groups.lua --out g --steps=2")
    local grouped = process.run(place, "optlua groups.lua --plan --diff g --steps=2 --groups.all.lr=2 --groups.all.lr_scale=3").out
    assert.matches("resume: groups.all.lr_scale: 3, was saved as nothing\n", grouped)
    assert.matches("resume: lr of group all: 6.?0?, was saved as 1", grouped)
    assert.equal("accumulate: 2, was saved as 1; steps: null, was saved as 6", (resumed "--resume-policy=config,optimizer=checkpoint,batch_size=checkpoint"):gsub("nothing", "null"))
  end)

  it("clips as its config says, and says what was otherwise", function()
    run "--out a --steps=6 --optimizer.max_norm=1 --optimizer.clip_value=2"
    local plan = run "--plan --diff a --steps=6 --optimizer.max_norm=null --optimizer.clip_value=0.5 --optimizer.grad_scale=2"
    assert.equal(0, plan.code, plan.err)
    assert.matches("resume: max_norm of the container: nothing, was saved as 1\n", plan.out)
    assert.matches("resume: clip_value of group default: 0.5, was saved as 2\n", plan.out)
    assert.matches("options { clip_value = 0.5,.* grad_scale = 2", plan.out)
    assert.equal(0, run("--plan --diff a --steps=6 --optimizer.max_norm=1").code)
  end)

  it("that goes on with the checkpoint's config is the one that never stopped", function()
    local words = "--optimizer.lr=0.05 --batch_size=3 --accumulate=1 --optimizer.ema=null"
    run("--out whole " .. words)
    run("--out part --steps=9 --lr_scheduler.total_steps=66 " .. words)
    local resumed = run "--out part --resume --resume-policy=checkpoint --steps=null"
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(weights "whole", weights "part")
  end)

  it("says what differs from the checkpoint, and does as --resume-policy says", function()
    run "--out a --steps=6"
    local resumed = run "--out a --resume --optimizer.lr=0.5"
    assert.matches("resume: lr of group default: 0.5, was saved as 0.01", resumed.out)
    assert.matches("resume: default.lr: another schedule", resumed.out)
    run "--out b --steps=6 --optimizer.lr=0.5"
    assert.not_matches("was saved as", run("--out b --resume --resume-policy=checkpoint").out)
    local wrong = run "--out b --resume --resume-policy=maybe"
    assert.equal(2, wrong.code)
    assert.matches("config, checkpoint or rebase expected, or KEY=one of them, got maybe", wrong.err)
    wrong = run "--resume nowhere"
    assert.equal(2, wrong.code)
    assert.matches("nowhere: there is no checkpoint", wrong.err)
  end)
end)

describe("a run of several optimizers, with schedulers in a list", function()
  local PAIR = [[
local optlua = require "optlua"
local nn, optim, schedule = optlua.nn, optlua.optim, optlua.schedule
local Pair = nn.class "Pair"
function Pair:init()
  self.a = nn.Linear(4, 4)
  self.b = nn.Linear(4, 3)
end
function Pair:forward(x) return self.b(self.a(x):tanh()) end
function Pair:configure_optimizers()
  local a, b = optim.AdamW(self.a, { lr = 0.1 }), optim[os.getenv "B" or "SGD"](self.b, { lr = 0.1 })
  local plateau = { mode = "min", patience = 0 }
  return { a = a, b = b }, { optim.lr_scheduler(a, schedule.ReduceLROnPlateau(plateau)), optim.lr_scheduler(b, schedule.linear { to = 0, steps = 20 }) }
end
return optlua.spec {
  name = "pair", config = { seed = 3, epochs = 4, batch_size = 4 },
  build_model = function() return Pair() end,
  build_data = function() return optlua.testing.points { n = 16 } end,
  build_loss = function() return nn.CrossEntropyLoss() end,
  train_step = function(state, batch, default)
    local loss = default(state, batch)
    loss:backward()
    for _, name in ipairs { "a", "b" } do
      state.optimizers[name]:step()
      state.optimizers[name]:zero_grad()
    end
    if state.step % 4 == 3 then state.lr_schedulers[1]:step(1) end
    return loss
  end,
}
]]

  it("goes on bit for bit; where one does not fit, none is loaded", function()
    process.write(place .. "/pair.lua", PAIR)
    local function run(words) return process.run(place, "optlua pair.lua " .. words) end
    assert.equal(0, run("--out whole").code)
    assert.equal(0, run("--out part --epochs=2").code)
    local resumed = run "--out part --resume"
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(process.read(place .. "/whole/last.safetensors"), process.read(place .. "/part/last.safetensors"))
    local wrong = process.run(place, "B=AdamW optlua pair.lua --out part --resume")
    assert.equal(1, wrong.code)
    assert.matches("checkpoint.load: b: AdamW: the state does not fit; nothing was loaded\n  differing: class.default: AdamW expected, got SGD", wrong.err)
  end)
end)
