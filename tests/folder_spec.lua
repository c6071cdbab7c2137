-- Folders of checkpoints: what is replaced or removed, and what never is.
local optlua = require "optlua"
local checkpoint = optlua.checkpoint
local fails = require("fails").matching
local folder = require "optlua.checkpoint.folder"
local process = require "process"

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

local function save(name, extra) checkpoint.save(("%s/%s"):format(place, name), { extra = extra or {} }) end
local function shell(words) return process.run(place, words).out end

describe("a save", function()
  it("replaces no folder that holds anything but a checkpoint", function()
    shell "mkdir -p project/src; echo x >project/src/main.c"
    fails("project: nothing was saved: the folder has src in it", save, "project")
    assert.equal("x\n", shell "cat project/src/main.c")
    save "a"
    shell "echo x >a/notes.txt"
    fails("a: nothing was saved: the folder has notes.txt in it", save, "a")
    assert.equal("a\nproject\n", shell "ls -A")
    shell "mkdir empty"
    save "empty"
    assert.equal("run.json\n", shell "ls -A empty")
  end)

  it("goes where a link points to, which stays a link", function()
    shell "mkdir big; ln -s big/k a; ln -s nowhere b"
    save "big/k"
    save("a", { step = 2 })
    assert.equal("big/k\n", shell "readlink a")
    assert.same({ step = 2 }, checkpoint.load(place .. "/big/k", {}))
    assert.equal("k\n", shell "ls -A big")
    fails("b: cannot be written: No such file", save, "b")
    assert.equal("a\nb\nbig\n", shell "ls -A")
  end)

  it("writes through no link that has the name of its temporary folder", function()
    shell "mkdir mine; touch mine/x; ln -s mine a.writing"
    fails("a.writing: Not a directory", save, "a")
    assert.equal("x\n", shell "ls -A mine")
    folder.sweep(place)
    save "a"
    assert.equal("a\nmine\n", shell "ls -A")
  end)

  it("keeps others out until what was there before is removed", function()
    save "a"
    local remove, outcome = os.remove, nil
    os.remove = function(path) -- luacheck: ignore
      if path:find "a.writing" and not outcome then outcome = table.pack(pcall(save, "a")) end
      return remove(path)
    end
    local ok, problem = pcall(save, "a", { step = 2 })
    os.remove = remove -- luacheck: ignore
    assert.is_true(ok, problem)
    assert.is_false(outcome[1])
    assert.matches("a: another process is writing it", outcome[2])
    assert.same({ step = 2 }, checkpoint.load(place .. "/a", {}))
  end)

  it("takes a path with slashes at its end", function()
    save "a/b//"
    assert.equal("b\n", shell "ls -A a")
  end)
end)

describe("a removal", function()
  it("takes links for what they are, and leaves what they point to", function()
    for k = 1, 4 do save("run/step-" .. k, { step = k }) end
    save "big/keep"
    shell "ln -s step-4 run/best; ln -s ../big/keep run/aaa; ln -s ../big run/x.writing; ln -s ../../big run/step-1/more"
    assert.same({ place .. "/run/step-1", place .. "/run/step-2" }, (checkpoint.prune(place .. "/run", { last = 2 })))
    folder.sweep(place .. "/run")
    assert.equal("aaa\nbest\nstep-3\nstep-4\n", shell "ls -A run")
    assert.equal("run.json\nrun.json\n", shell "ls -A run/step-4 big/keep | grep json")
    assert.is_true(folder.remove(place .. "/run/aaa"))
    assert.equal("keep\n", shell "ls -A big")
  end)

  it("that does not succeed is told, and not among what was removed", function()
    local remove = os.remove
    save "run/a"
    save "run/b"
    os.remove = function(path) -- luacheck: ignore
      if path:find "run.json" then return nil, path .. ": Operation not permitted", 1 end
      return remove(path)
    end
    local ok, removed, problems = pcall(checkpoint.prune, place .. "/run", { last = 1 })
    os.remove = remove -- luacheck: ignore
    assert.is_true(ok, removed)
    assert.same({}, removed)
    assert.equal(1, #problems)
    assert.matches("run/a: .*run.json: Operation not permitted", problems[1])
  end)

  it("that does not succeed is said by a run, which goes on", function()
    process.write(place .. "/s.lua", [[
      local remove, optlua = os.remove, require "optlua"
      os.remove = function(path)
        if path:find "run.json" then return nil, path .. ": Operation not permitted", 1 end
        return remove(path)
      end
      return optlua.spec {
        name = "kept", config = { steps = 3, batch_size = 4, checkpoint_every = 1, keep_last = 1, optimizer = { class = "SGD" } },
        build_model = function() return optlua.nn.Linear(4, 3) end,
        build_data = function() return optlua.testing.points { n = 16 } end,
        build_loss = function() return optlua.nn.CrossEntropyLoss() end,
      }
    ]])
    local result = process.run(place, "optlua s.lua --out out")
    assert.equal(1, result.code)
    assert.matches("out/checkpoints: cannot be written %([^\n]*step%-00000001[^\n]*run.json: Operation not permitted%); the run goes on", result.err)
    assert.matches("step%-00000003", shell "ls out/checkpoints")
  end)
end)

describe("a pipe in the place of a file", function()
  it("is not waited for", function()
    for _, name in ipairs { "run.json", "optimizer.safetensors" } do
      save "c/one"
      shell("rm -f c/one/" .. name .. "; mkfifo c/one/" .. name)
      process.write(place .. "/read.lua", [[
        local checkpoint = require("optlua").checkpoint
        print(checkpoint.read "c/one" ~= nil, (checkpoint.latest "c"))
        print(pcall(require("optlua.core").hidden.checksum, "c/one/]] .. name .. [["))]])
      local out = shell "timeout 20 optlua read.lua"
      assert.matches(name .. ": it is no regular file", out, 1, true)
      shell "rm -r c"
    end
  end)
end)
