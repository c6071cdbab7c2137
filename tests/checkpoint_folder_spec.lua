-- Many checkpoints in a folder: the last that is whole, the best, and what is removed.
local optlua = require "optlua"
local checkpoint = optlua.checkpoint
local folder = require "optlua.checkpoint.folder"
local process = require "process"
local nn = optlua.nn

local fails = require("fails").matching

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

describe("many checkpoints", function()
  local function names_of(paths)
    local names = {}
    for k, path in ipairs(paths) do names[k] = path:match "[^/]+$" end
    return names
  end

  it("are listed by name; the latest is the last that is whole; litter is swept", function()
    local model = nn.Linear(3, 4)
    local given = { model = model, optimizer = optlua.optim.SGD(model) }
    assert.same({}, checkpoint.list(place))
    assert.is_nil((checkpoint.latest(place)))
    for _, name in ipairs { "step-1", "step-3", "step-2", "step-00000010", "step-100000000", "step-99999999" } do
      checkpoint.save(place .. "/" .. name, given)
    end
    assert.same({ "step-1", "step-2", "step-3", "step-00000010", "step-99999999", "step-100000000" }, names_of(checkpoint.list(place)))
    process.run(place, "rm -r step-00000010 step-100000000 step-99999999")
    process.run(place, "mkdir step-9.writing other; touch step-9.writing/x best.safetensors.77-0.tmp")
    assert.same({ place .. "/step-1", place .. "/step-2", place .. "/step-3" }, checkpoint.list(place))
    assert.equal(place .. "/step-3", (checkpoint.latest(place)))
    process.run(place, "printf x >>step-3/weights.safetensors")
    local found, damaged = checkpoint.latest(place)
    assert.same({ place .. "/step-2", { place .. "/step-3" } }, { found, damaged })
    folder.sweep(place)
    assert.equal("other\nstep-1\nstep-2\nstep-3\n", process.run(place, "ls").out)
  end)
end)

describe("a path", function()
  it("may be that of a run wherever many are asked for; what is no path is named", function()
    local model = nn.Linear(2, 1)
    for k = 1, 3 do checkpoint.save(("%s/run/checkpoints/%d"):format(place, k), { model = model, value = k % 3 }) end
    process.write(place .. "/run/run.json", "{}")
    local own = place .. "/run/checkpoints"
    assert.same(checkpoint.list(own), checkpoint.list(place .. "/run/"))
    assert.equal(own .. "/3", (checkpoint.latest(place .. "/run")))
    assert.equal(own .. "/2", (checkpoint.best(place .. "/run", "max")))
    assert.same({}, checkpoint.list(place)) -- a run is no checkpoint
    fails("run: this is the folder of a run; its checkpoints are in .*run/checkpoints", checkpoint.load, place .. "/run", { model = model })
    fails("checkpoint.load: path: a string expected, got nil %(checkpoint.latest and best give nil", checkpoint.load, nil, { model = model })
    for _, name in ipairs { "save", "read", "verify", "list", "latest", "best", "prune", "lock" } do
      fails(("checkpoint.%s: path: a string expected, got a number"):format(name), checkpoint[name], 1, {})
    end
    fails('mode: expected one of "min", "max"; got nothing', checkpoint.best, place)
  end)
end)

describe("the best of many checkpoints", function()
  it("is found by its value, and kept beside the last few", function()
    assert.is_nil((checkpoint.best(place, "min")))
    for k, value in ipairs { 3, 1, 0 / 0, 2, 1, 4 } do
      checkpoint.save(("%s/step-%d"):format(place, k), { extra = { step = k }, value = value })
    end
    checkpoint.save(place .. "/step-7", { extra = {} })
    assert.same({ place .. "/step-2", 1 }, { checkpoint.best(place, "min") })
    assert.same({ place .. "/step-6", 4 }, { checkpoint.best(place, "max") })
    process.run(place, "rm step-2/run.json; mkdir step-2/x")
    assert.same({ place .. "/step-5", 1 }, { checkpoint.best(place, "min") })
    checkpoint.save(place .. "/step-3", { model = nn.Linear(1, 1), value = 0 })
    process.run(place, "printf x >>step-3/weights.safetensors") -- it is no best one
    local removed = checkpoint.prune(place, { last = 1, best = "min" })
    assert.equal(4, #removed)
    assert.same({ place .. "/step-5", place .. "/step-7" }, checkpoint.list(place))
    fails('mode: expected one of "min", "max"', checkpoint.best, place, "least")
    fails("best: expected one of", checkpoint.prune, place, { best = "least" })
  end)

  it("is due after so many updates or minutes", function()
    local due = checkpoint.timer { every = 3 }
    assert.same({ false, false, false, true, false }, { due(0), due(1), due(2), due(3), due(4) })
    due = checkpoint.timer { minutes = 1e-9 }
    local before = optlua.clock()
    repeat until optlua.clock() - before > 1e-6
    assert.is_true(due(1))
    assert.is_false(checkpoint.timer { minutes = 1000 }(1))
    fails("every, updates, or minutes expected", checkpoint.timer, {})
  end)

  it("lies in a folder that one process has for itself", function()
    process.run(place, "mkdir -p a/x.writing; touch a/x.json.12-0.tmp a/mine.tmp")
    local lock = checkpoint.lock(place .. "/a")
    assert.equal("lock\nmine.tmp\n", process.run(place, "ls a").out)
    process.write(place .. "/other.lua", 'require("optlua").checkpoint.lock "a"')
    assert.matches("other.lua:1: checkpoint.lock: a: another run is in this folder", process.run(place, "optlua other.lua").err)
    lock:close()
    lock:close()
    assert.equal(0, process.run(place, "optlua other.lua").code)
    assert.equal(0, process.run(place, "optlua other.lua").code)
  end)
end)
