-- Runs that are stopped and go on: nothing is lost, and what follows is what would have been.
local json_decode = require("optlua.core").hidden.json_decode
local process = require "process"

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

-- Four updates an epoch; a schedule that counts epochs. STOP_AT: the step at which the run signals itself.
local SCRIPT = [[
local optlua = require "optlua"
return optlua.spec {
  name = "short",
  config = { seed = 3, epochs = 3, batch_size = 4, checkpoint_every = 2, keep_last = 100, tensorboard = false,
    optimizer = { class = "SGD", lr = 0.1 }, lr_scheduler = { class = "StepLR", step_size = 1, gamma = 0.5, interval = "epoch" } },
  build_model = function() return optlua.nn.Linear(4, 3) end,
  build_data = function() return optlua.testing.points { n = 16 }, optlua.testing.points { n = 8, seed = 1 } end,
  build_loss = function() return optlua.nn.CrossEntropyLoss() end,
  on_epoch = function(state) print(("end of epoch %d at %d"):format(state.epoch, state.step)) end,
  on_step = function(state)
    if os.getenv "STOP_AT" ~= tostring(state.step) then return end
    io.popen(("kill -%s %s"):format(os.getenv "STOP_BY" or "INT", os.getenv "RUN_ID")):close()
  end,
}
]]

before_each(function() process.write(place .. "/short.lua", SCRIPT) end)

-- Runs a script of the folder, which knows the id of its process.
local function run(words, environment, script)
  local command = "%s env --default-signal sh -c 'RUN_ID=$$ exec optlua %s %s'"
  return process.run(place, command:format(environment or "", script or "short.lua", words))
end

local function weights(name) return process.read(("%s/%s/last.safetensors"):format(place, name)) end

local function shell(text) return process.run(place, text).out end

-- The first column of the log, joined.
local function steps_of(name) return shell("cut -d, -f1 " .. name .. "/log.csv | tr '\\n' ' '") end

local ALL = "step 1 2 3 4 5 6 7 8 9 10 11 12 "

describe("a run that cannot go on", function()
  local function is_left_alone(words)
    assert.equal(0, run("--out a").code)
    local before = shell "find a -type f | grep -v lock | sort | xargs cksum"
    local refused = run("--out a --resume a/checkpoints/step-00000004 " .. words)
    assert.equal(1, refused.code)
    assert.equal(before, shell "find a -type f | grep -v lock | sort | xargs cksum")
    return refused.err
  end

  it("leaves its folder as it was, with what came later", function()
    assert.matches("nothing was loaded", is_left_alone "--optimizer=AdamW")
  end)

  it("does so where a file of surgery names what is not there", function()
    process.write(place .. "/move.lua", 'return function(saved) saved:split("wieght", { "a", "b" }) end')
    assert.matches("wieght", is_left_alone "--surgery move.lua")
  end)
end)

describe("a run that a signal ends", function()
  it("at the last batch of an epoch ends that epoch when it goes on", function()
    local whole = run "--out whole"
    for _, at in ipairs { 4, 12 } do
      local name = "part" .. at
      local stopped = run("--out " .. name, "STOP_AT=" .. at)
      assert.equal(130, stopped.code, stopped.err)
      local resumed = run(("--out %s --resume"):format(name))
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(weights "whole", weights(name))
      local ends = {}
      for line in (stopped.out .. resumed.out):gmatch "end of epoch[^\n]*\n" do ends[#ends + 1] = line end
      assert.equal("end of epoch 1 at 4\nend of epoch 2 at 8\nend of epoch 3 at 12\n", table.concat(ends))
      assert.equal(whole.out:match "epoch  3  step 12  loss [%d.]+", resumed.out:match "epoch  3  step 12  loss [%d.]+")
    end
  end)

  it("ends with it the run that it is within", function()
    process.write(place .. "/outer.lua", [[
      local short = require "short"
      return short:extend { name = "outer", on_step = function(state)
        if state.step == 2 then short:run { steps = 5, epochs = nil } end
      end }]])
    local result = run("--out a", "STOP_AT=2 STOP_BY=TERM", "outer.lua")
    assert.equal(143, result.code, result.err)
    assert.equal("step 1 2 ", steps_of "a")
    assert.matches("step%-00000002\n$", shell "ls a/checkpoints")
  end)

  it("tells a script that runs several", function()
    process.write(place .. "/sweep.lua", [[
      for seed = 1, 3 do
        local result = require("short"):run { seed = seed }
        print(result.steps, result.signal, result.stopped)
        if result.signal then break end
      end]])
    assert.equal("2\t2\tsignal 2 (Ctrl-C)\n", run("", "STOP_AT=2", "sweep.lua").out)
  end)

  it("that is ignored goes on", function()
    for _, name in ipairs { "INT", "TERM" } do
      local command = "env --ignore-signal=%s sh -c 'RUN_ID=$$ STOP_BY=%s STOP_AT=2 exec optlua short.lua'"
      local ignored = process.run(place, command:format(name, name))
      assert.equal(0, ignored.code, ignored.err)
    end
  end)
end)

describe("the folder of a run", function()
  it("stays where updates were made, though all were gone back from", function()
    process.write(place .. "/back.lua", [[
      local count = 0
      return require("short"):extend { config = { steps = 20, epochs = 10, max_skipped = 3, checkpoint_every = 100,
          optimizer = { nonfinite = "rollback" } },
        train_step = function(state, batch, default)
          count = count + 1
          local loss, items = default(state, batch)
          return count > 3 and loss * (0 / 0) or loss, items
        end }]])
    local failed = run("--out a", nil, "back.lua")
    assert.equal(1, failed.code)
    assert.matches("rollback from step 0 to 0", failed.out)
    assert.equal("step 1 2 3 ", steps_of "a")
  end)

  it("is locked until it has been removed", function()
    process.write(place .. "/hold.lua", [[
      local folder = require "optlua.checkpoint.folder"
      local remove = folder.remove
      function folder.remove(path)
        print("locked", require("optlua.core").hidden.lock(path .. "/lock") == nil)
        return remove(path)
      end
      return require("short"):extend { build_loss = function() return function() error "no" end end }]])
    assert.matches("locked\ttrue\n", run("--out a", nil, "hold.lua").out)
    assert.equal("", shell "ls -d a 2>/dev/null")
  end)

  it("is the same however it is spelt", function()
    for k, words in ipairs { "--out a%d --resume ./a%d/checkpoints/step-00000004", "--out a%d/ --resume a%d",
      "--out ./a%d --resume a%d/checkpoints/step-00000004/", "--resume a%d/checkpoints/step-00000004//", "--out link%d --resume a%d/checkpoints/step-00000004" } do
      assert.equal(0, run("--out a" .. k).code)
      shell(("rm -r a%d/checkpoints/step-000000[01][68]; ln -s a%d link%d"):format(k, k, k))
      local resumed = run((words:gsub("%%d", k)))
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(ALL, steps_of("a" .. k), words)
    end
    assert.equal("", shell "ls -d runs 2>/dev/null")
  end)

  it("loses later checkpoints from the last back", function()
    assert.equal(0, run("--out a").code)
    process.write(place .. "/fails.lua", [[
      local folder = require "optlua.checkpoint.folder"
      function folder.remove(path)
        print("removes " .. path)
      end
      return require "short"]])
    local removed = {}
    for name in run("--out a --resume a/checkpoints/step-00000006", nil, "fails.lua").out:gmatch "removes a/checkpoints/step%-0*(%d+)" do
      removed[#removed + 1] = name
    end
    assert.equal("12 10 8", table.concat(removed, " "))
  end)
end)

describe("the log of a run", function()
  it("loses the beginning of a line that a killed run has left", function()
    run("--out a", "STOP_AT=5")
    shell [[printf '{"step":6,"lo' >>a/log.jsonl; printf '6,1' >>a/log.csv]]
    assert.equal(0, run("--out a --resume").code)
    assert.equal(ALL, steps_of "a")
    for line in io.lines(place .. "/a/log.jsonl") do assert(json_decode(line), line) end
  end)

  it("that cannot be cut is said, and the run goes on", function()
    assert.equal(0, run("--out a").code)
    process.write(place .. "/full.lua", [[
      local files = require "optlua.files"
      local write = files.write
      function files.write(path, text)
        if path:find "log.csv$" then return nil, path .. ": No space left on device" end
        return write(path, text)
      end
      return require "short"]])
    local resumed = run("--out a --resume a/checkpoints/step-00000004", nil, "full.lua")
    assert.equal(1, resumed.code)
    assert.equal("optlua: a/log.csv: cannot be written (No space left on device); the run goes on\n", resumed.err)
    assert.matches("end of epoch 3 at 12\n", resumed.out)
  end)
end)

describe("a value that cannot be saved", function()
  it("ends the run, whatever its folder is called", function()
    process.write(place .. "/wrong.lua", [[
      return require("short"):extend { on_step = function(state) state.results = { f = print } end }]])
    for _, out in ipairs { "a", "sav", "." } do
      local result = run("--epochs=1 --out " .. out, nil, "wrong.lua")
      assert.matches("checkpoint.save.extra.results.f: a function cannot be saved", result.err)
      assert.not_matches("the run goes on", result.err)
    end
  end)
end)
