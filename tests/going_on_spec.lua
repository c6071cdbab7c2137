-- Runs of a spec that go on: what is said, what is refused, what stays.
local process = require "process"

local place
before_each(function()
  place = process.folder()
  process.write(place .. "/script.lua", [[
    local optlua = require "optlua"
    local nn = optlua.nn
    return optlua.spec {
      name = "small",
      config = { epochs = 2, batch_size = 4, optimizer = { class = "AdamW", lr = 0.01 }, lr_scheduler = { class = "cosine" } },
      build_model = function() return nn.Sequential { nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3) } end,
      build_data = function() return optlua.testing.points { n = 16 }, optlua.testing.points { n = 8, seed = 1 } end,
      build_loss = function() return nn.CrossEntropyLoss() end,
    }]])
end)
after_each(function() process.remove(place) end)

local function run(words, script) return process.run(place, ("optlua %s.lua %s"):format(script or "script", words)) end

local function good(words, script)
  local result = run(words, script)
  assert.equal(0, result.code, result.err)
  return result.out
end

local function bad(words, script)
  local result = run(words, script)
  assert.not_equal(0, result.code)
  return result
end

describe("a run that goes on", function()
  it("with surgery takes nothing on trust: what is left without a weight is refused, unless the surgery says otherwise", function()
    good "--out a"
    process.write(place .. "/other.lua", [[
      local nn = require("optlua").nn
      return require("script"):extend { build_model = function()
        local Net = nn.class "Net"
        function Net:init() self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 3) end
        function Net:forward(x) return self.two(self.one(x):relu()) end
        return Net()
      end }]])
    process.write(place .. "/none.lua", "return function() end")
    local refused = bad("--resume a --out b --epochs=3 --surgery none.lua", "other")
    assert.matches("does not fit; nothing was loaded\n  missing: [^\n]*one.weight", refused.err)
    assert.matches("to go on all the same: .*saved.strict = false", refused.err)
    process.write(place .. "/loose.lua", "return function(saved) saved.strict = false end")
    assert.matches("resume: model: missing: [^\n]*one.weight", good("--resume a --out b --epochs=3 --surgery loose.lua", "other"))
    process.write(place .. "/move.lua",
      [[return function(saved) saved:rename(function(name) return (name:gsub("^0", "one"):gsub("^2", "two")) end) end]])
    local function score(text) return text:match "validation loss ([%d.]+)" end
    local from = good("--from a/last.safetensors --surgery move.lua --dry-run", "other")
    assert.equal(score(good "--from a/last.safetensors --dry-run"), score(from))
    assert.matches("missing: [^\n]*one.weight", bad("--from a/last.safetensors --surgery none.lua --dry-run", "other").err)
    process.write(place .. "/slip.lua", [[return function(saved) saved:renme("0.weight", "one") end]])
    refused = bad("--resume a --out c --surgery slip.lua", "other").err
    assert.matches("slip.lua:1: ", refused)
    assert.not_matches("traceback", refused)
  end)

  it("makes one update and one validation with --dry-run, and says when there is none left to make", function()
    good "--out a"
    local out = good "--resume a --epochs=3 --dry-run"
    assert.matches("epoch  3  step 9  .*validation loss", out)
    assert.not_matches("nil", out)
    out = good "--resume a --dry-run"
    assert.matches("nothing is left to do: 8 updates of 8 are made", out)
    assert.not_matches("the run is in", out)
    assert.matches("nothing is left to do", good "--resume a")
  end)

  it("says what it drops in its own folder, and keeps the best of that; nothing changes where nothing is left to do", function()
    process.write(place .. "/best.lua", [[
      local best = { [4] = 1, [8] = 2, [12] = 5, [16] = 3 }
      return require("script"):extend { config = { keep_best = true, keep_last = 9, monitor = "score" },
        metrics = { score = { update = function() end, reset = function() end, compute = function() return best[STEP] or 0 end } },
        on_step = function(state) STEP = state.step end }]])
    good("--out a --epochs=4 --checkpoint_every=2", "best")
    local weights, before = process.read(place .. "/a/best.safetensors"), process.run(place, "ls a/checkpoints; cat a/*.safetensors a/config.lua a/log.*").out
    for _, step in ipairs { 6, 8 } do
      local out = good(("--resume a/checkpoints/step-0000000%d --steps=%d"):format(step, step), "best")
      assert.matches("nothing is left to do: " .. step, out)
      assert.not_matches("dropped", out)
    end
    assert.equal(before, process.run(place, "ls a/checkpoints; cat a/*.safetensors a/config.lua a/log.*").out)
    process.write(place .. "/a/checkpoints/step-00000016/run.json", "{")
    local out = good("--resume a/checkpoints/step-00000006 --epochs=2 --optimizer.lr=1e-5", "best")
    assert.matches("resume: what followed step 6 is dropped, 5 checkpoints to a/checkpoints/step%-00000016; "
      .. "its best is kept as a/best%-step%-00000012.safetensors\n", out)
    assert.equal(weights, process.read(place .. "/a/best-step-00000012.safetensors"))
    assert.equal(0, process.run(place, "optlua ckpt verify a/best-step-00000012").code)
    assert.equal("step-00000002\nstep-00000004\nstep-00000006\nstep-00000008\n", process.run(place, "ls a/checkpoints").out)
    out = good("--resume a/checkpoints/step-00000006 --epochs=2", "best")
    assert.matches("1 checkpoint to a/checkpoints/step%-00000008; its best is kept as a/best%-step%-00000008.safetensors\n", out)
  end)

  it("says that another seed has no effect", function()
    good "--out a"
    assert.matches("resume: seed: 3, was saved as 0; the run goes on with the random numbers of its checkpoint\n",
      good "--resume a --seed=3 --dry-run")
  end)

  it("refuses a policy for a key that there is not", function()
    good "--out a"
    local function refused(words) return bad("--resume a --resume-policy=" .. words).err end
    assert.matches('unknown key "optimizer.lrr" %(did you mean "optimizer.lr"%?%); legal: optimizer.agc,', refused "optimizer.lrr=checkpoint")
    assert.matches('unknown key "zzz"; legal: accumulate,', refused "checkpoint,zzz=config")
    good "--resume a --dry-run --resume-policy=optimizer=checkpoint,groups.default.lr=config,patience=checkpoint,lr_scheduler.steps=config"
  end)

  it("says what differs, and what helps, where the checkpoint does not fit", function()
    good "--out a"
    local refused = bad "--resume a --optimizer=SGD --out b"
    assert.matches('resume: optimizer.class: "SGD", was saved as "AdamW"\n', refused.out)
    assert.matches("class.default: SGD expected, got AdamW.*to go on all the same: %-%-resume%-policy=checkpoint takes", refused.err)
  end)

  it("finds the classes again that the script has as values", function()
    process.write(place .. "/mine.lua", [[
      local optim = require("optlua").optim
      local Mine = optim.define { name = "Mine", hyper = { lr = 0.1 }, update = function(p, g, s, h) return p - h.lr * g end }
      local groups = { { name = "first", match = "0.*", class = Mine }, { name = "rest", match = "*" } }
      return require("script"):extend { config = { optimizer = { class = optim.lookahead(Mine) }, lr_scheduler = false,
        groups = os.getenv "GROUPED" and groups } }]])
    for _, words in ipairs { "optlua mine.lua", "GROUPED=1 optlua mine.lua --optimizer=Adam --optimizer.lr=0.1" } do
      local function mine(more)
        local result = process.run(place, words .. " " .. more)
        assert.equal(0, result.code, result.err)
        return result.out
      end
      process.write(place .. "/run.lua", mine "--print-config")
      mine "--config run.lua --dry-run"
      mine "--out a"
      mine "--config a/config.lua --dry-run"
      assert.matches("epoch  3", mine "--resume a --resume-policy=checkpoint --epochs=3")
      process.run(place, "rm -r a")
    end
    assert.matches("unknown schedule .none.*; null is none, optlua.schedule.register adds one", bad("--lr_scheduler=none").err)
    assert.matches("has a name when the script registers it", good "--help")
  end)

  it("is by itself the one that wrote a checkpoint last", function()
    good ""
    good ""
    process.run(place, [[sed -i '/"checksum"/d; s/"date": "20/"date": "19/' runs/small-2/checkpoints/*/run.json]])
    assert.matches("resume: runs/small/checkpoints/step%-00000008", good "--resume --dry-run")
    assert.matches("there is no checkpoint; beside %-%-out it goes on in that folder", bad("--resume --out new").err)
  end)

  it("gives each record the epoch of its update", function()
    good "--out a"
    local log = process.read(place .. "/a/log.jsonl")
    assert.matches('"epoch":1,"event":"checkpoint",[^\n]*"step":4}', log)
    assert.not_matches('"epoch":3', log)
  end)
end)

describe("an end of a run", function()
  -- A script whose metric gives what it is told, one value for each validation; callbacks that fail where they are told to.
  before_each(function()
    process.write(place .. "/told.lua", [[
      local optlua = require "optlua"
      local function fail(name) return function() if os.getenv "FAIL" == name then error("no " .. name) end end end
      return require("script"):extend {
        config = { eval_every = 4, patience = 2, epochs = 9, lr_scheduler = false },
        on_epoch = fail "on_epoch", on_validation = fail "on_validation", on_step = fail "on_step",
        on_start = function() if os.getenv "KILL" then os.execute "kill -9 $PPID" end end,
        metrics = { score = { reset = function() end, update = function() end, compute = function()
          if os.getenv "FAIL" == "compute" then return { 1, nil, 2 } end
          return os.getenv "FAIL" == "tensor" and optlua.ones { 1 } or 1
        end } },
      }]])
  end)

  local function steps_of(name) return tonumber(process.read(place .. "/" .. name .. "/log.csv"):match "(%d+),[^\n]*\n$") end

  it("makes a validation that does not count for patience", function()
    good("--out whole --log_every=1", "told")
    assert.equal(12, steps_of "whole")
    good("--out cut --log_every=1 --steps 6", "told")
    assert.matches("no better score in 2 validations", good("--resume cut --log_every=1", "told"))
    assert.equal(12, steps_of "cut")
    good("--out epochs --log_every=1 --eval_every=null --steps 6", "told")
    good("--resume epochs --log_every=1 --eval_every=null", "told")
    assert.equal(12, steps_of "epochs")
  end)

  it("by patience is one", function()
    good("--out a", "told")
    local weights = process.read(place .. "/a/last.safetensors")
    assert.matches("stopped: no better score in 2 validations", good("--resume a", "told"))
    assert.equal(weights, process.read(place .. "/a/last.safetensors"))
    assert.matches("step 20", good("--resume a --patience=4", "told"))
  end)

  it("by an error of the script between updates saves what was made, and goes on bit for bit", function()
    good("--out whole --epochs 3 --patience=null", "told")
    local wanted = process.read(place .. "/whole/last.safetensors")
    for _, name in ipairs { "on_epoch", "on_validation", "on_step", "compute" } do
      local result = process.run(place, ("FAIL=%s optlua told.lua --epochs 3 --patience=null --out %s"):format(name, name))
      assert.not_equal(0, result.code)
      assert.matches(name == "compute" and "metrics: score: compute returns a number, not a table" or "no " .. name, result.err)
      assert.matches(("step %d is saved"):format(name == "on_step" and 1 or 4), result.out)
      good(("--resume %s --epochs 3 --patience=null"):format(name), "told")
      assert.equal(wanted, process.read(place .. "/" .. name .. "/last.safetensors"))
    end
    assert.equal(0, process.run(place, "FAIL=tensor optlua told.lua --out tensor").code)
  end)

  it("on a full disk says what is in no checkpoint; the oldest give way before that", function()
    process.write(place .. "/full.lua", [[
      local checkpoint = require("optlua").checkpoint
      local save, room = checkpoint.save, tonumber(os.getenv "ROOM")
      checkpoint.save = function(path, parts)
        local place = path:match "^(.*)/"
        if #checkpoint.list(place) >= room then error(place .. "/x: writing failed: No space left on device", 0) end
        return save(path, parts)
      end
      return require "script"]])
    local function steps(room, name)
      local result = process.run(place, ("ROOM=%d optlua full.lua --checkpoint_every=1 --out %s"):format(room, name))
      return process.run(place, "ls " .. name .. "/checkpoints").out:gsub("step%-0+", ""):gsub("\n", " "), result.out
    end
    assert.equal("7 8 ", (steps(2, "a")))
    local left, said = steps(1, "b")
    assert.equal("1 ", left)
    assert.matches("goes on with it from step 1: the last 7 updates are in no checkpoint", said)
  end)

  it("before the first checkpoint leaves the folder to the next", function()
    process.run(place, "KILL=1 optlua told.lua --out a")
    assert.matches("name", process.read(place .. "/a/config.lua") .. "name")
    good("--out a", "told")
    assert.matches("a holds a run already", bad("--out a", "told").err)
  end)
end)

describe("the folder of a run", function()
  it("takes no other run that goes on", function()
    good "--out a --epochs 1"
    good "--out b --seed 3"
    assert.matches("b holds another run than that of a/checkpoints/step%-00000004", bad("--resume a --out b").err)
    good "--resume a --out ./a"
  end)

  it("keeps files of the user, whatever their names", function()
    process.run(place, "mkdir mine.writing; echo x >mine.writing/x; echo x >notes.1-2.tmp; echo x >config.lua.1-2.tmp")
    good "--out ."
    assert.equal("mine.writing/x\nnotes.1-2.tmp\n", process.run(place, "ls mine.writing/x *.tmp").out)
  end)
end)

describe("--eval", function()
  it("takes the best weights of a run, and those of a checkpoint", function()
    good "--out a"
    local wanted = good "--eval a/best.safetensors"
    assert.equal(wanted, good "--eval a")
    assert.equal(good "--eval a/last.safetensors", good "--eval a/checkpoints/step-00000008")
    assert.matches("%-%-eval: %.: there is no best.safetensors; a file of weights, a run", bad("--eval .").err)
  end)
end)
