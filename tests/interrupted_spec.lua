-- SIGINT, real ones, at many an instruction of what must be whole: it is whole then, and the error has been raised.
local process = require "process"

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

-- A process with one SIGINT at an instruction of each trial. Each line of what is read from stdin has one of its own; the second
-- in one stretch of Lua would end the process.
local PRELUDE = [[
optlua = require "optlua"
checkpoint, nn, optim = optlua.checkpoint, optlua.nn, optlua.optim
host = require("optlua.core").hidden

function text(value)
  if optlua.is_tensor(value) then value = value:reshape(-1):totable() end
  return type(value) == "table" and table.concat(value, " ") or tostring(value)
end

-- All that weights and states are.
function all_of(parts)
  local list = {}
  for _, part in ipairs(parts) do
    for key, value in pairs(part:state_dict()) do list[#list + 1] = key .. "=" .. text(value) end
  end
  table.sort(list)
  return table.concat(list, "\n")
end

function signal() io.popen("kill -INT $PPID"):close() end

function count(fn)
  local count = 0
  debug.sethook(function() count = count + 1 end, "", 1)
  fn()
  debug.sethook()
  return count
end

-- Calls a function that gets a SIGINT at its n-th instruction: what pcall gives.
function interrupted(n, fn)
  return pcall(function()
    debug.sethook(function()
      n = n - 1
      if n > 0 then return end
      debug.sethook()
      signal()
    end, "", 1)
    fn()
    debug.sethook()
  end)
end

-- One trial for each line: prints what it says.
function trial(k, of)
  make()
  local n = 1 + total * k // of
  local ok, problem = interrupted(n, act)
  debug.sethook()
  local said = check(ok, problem)
  if said or not tostring(problem):find("interrupted!", 1, true) then
    print(("%d of %d: %s (%s, %s)"):format(n, total, said, ok, problem))
  end
end
]]

-- Runs trials; the script has globals: make() begins anew, act() is what is interrupted, check(ok, problem) gives what is wrong.
local function tear(script, trials)
  process.write(place .. "/s.lua", PRELUDE .. script .. "\nmake() act() make()\ntotal = count(act) - 3\n") -- the last three are those that end the count
  local lines = { "_PROMPT = ''" }
  for k = 0, trials - 1 do lines[#lines + 1] = ("trial(%d, %d)"):format(k, trials) end
  lines[#lines + 1] = "print 'done'"
  local result = process.run(place, "optlua -i s.lua", table.concat(lines, "\n") .. "\n")
  assert.equal("", result.err)
  assert.matches("^optlua [^\n]*\n> done\n", result.out)
end

-- What a script says, and its exit code.
local function run(script)
  process.write(place .. "/s.lua", PRELUDE .. script)
  local result = process.run(place, "optlua s.lua")
  return result.out .. result.err:gsub("\n.*", ""), result.code
end

local STEP = [[
  optlua.manual_seed(1)
  model = nn.Linear(2, 2)
  function make()
    model.weight:detach():fill_(1)
    optimizer = optim.container(model, { { name = "a", match = "weight", class = optim.AdamW },
      { name = "b", match = "*", class = optim.SGD, momentum = 0.9 } }, { ema = 0.9, max_norm = 1 })
    scheduler = optim.lr_scheduler(optimizer, function(t) return 0.9 ^ t end)
    model(optlua.ones { 1, 2 }):sum():backward()
  end
  function act() optimizer:step() end
  function check()
    local state = optimizer:state_dict()
    for _, key in ipairs { "group.a.step", "group.b.step", "state.weight.step", "state.bias.step" } do
      if state[key] ~= state.updates then return key .. " is " .. state[key] end
    end
    if model.weight:equal(optlua.ones { 2, 2 }) ~= (state.updates == 0) then return "the weights" end
  end
]]

local AVERAGES = [[
  optlua.manual_seed(1)
  model = nn.Sequential { nn.Linear(2, 2), nn.BatchNorm1d(2) }
  optimizer = optim.container(model, CLASS)
  for _ = 1, 3 do
    optimizer:zero_grad()
    model(optlua.ones { 2, 2 }):sum():backward()
    optimizer:step()
  end
  before = all_of { model, optimizer }
  function make() end
  function check()
    if all_of { model, optimizer } ~= before then return "another state" end
    optimizer:zero_grad()
    model(optlua.ones { 2, 2 }):sum():backward()
    optimizer:step()
    before = all_of { model, optimizer }
  end
]]

local WITH_EVAL = [[
  function act() optimizer:with_eval(function() model(optlua.ones { 2, 2 }) end) end
]]

local FORMS = [[
  local function weights() return text(model[1].weight) .. text(model[1].bias) .. text(model[2].weight) .. text(model[2].bias) end
  local train_form = weights()
  optimizer:eval()
  local eval_form = weights()
  function make() optimizer:train() end
  function act()
    optimizer:eval()
    optimizer:train()
  end
  function check()
    local mode = optimizer:state_dict()["group.default.mode"]
    if weights() ~= (mode == "eval" and eval_form or train_form) then return "weights of the other form" end
    optimizer:train()
    if all_of { model, optimizer } ~= before then return "another state" end
  end
]]

describe("SIGINT", function()
  it("in a step of an optimizer leaves no update, or a whole one with its counts", function() tear(STEP, 150) end)

  it("in with_eval leaves the weights, and what the optimizer is in the middle of, as they were", function()
    tear(AVERAGES:gsub("CLASS", '"AdamW", { ema = 0.5 }') .. WITH_EVAL, 150)
    tear(AVERAGES:gsub("CLASS", '"ScheduleFreeAdamW"') .. WITH_EVAL, 150)
  end)

  it("in eval and train of an optimizer leaves one form or the other", function()
    tear(AVERAGES:gsub("CLASS", '"ScheduleFreeAdamW"') .. FORMS, 200)
  end)

  it("around the end of a block that puts things back leaves them put back", function()
    tear([[
      function make() changed = false end
      function act()
        local _ <close> = host.closing(function() changed = false end)
        changed = true
      end
      function check() return changed and "not put back" end
    ]], 40)
  end)

  it("waits for the end of a function, or of its error, and is raised once", function()
    local out = run [[
      print(pcall(host.uninterrupted, function(a, b)
        signal()
        host.uninterrupted(print, "inside")
        print "end"
        return a + b
      end, 1, 2))
      print(host.uninterrupted(function(...) return select("#", ...), ... end, nil, 5, nil))
    ]]
    assert.matches("^inside\nend\nfalse\t[^\n]*interrupted!\n3\tnil\t5\tnil\n$", out)
    out = run [[
      print(pcall(host.uninterrupted, error, "wrong", 0))
      print(pcall(function()
        signal()
        print "not here"
      end))
    ]]
    assert.matches("^false\twrong\nfalse\t[^\n]*interrupted!\n$", out)
    out = run [[
      print(pcall(host.uninterrupted, function()
        signal()
        error("wrong", 0)
      end))
    ]]
    assert.matches("^false\t[^\n]*interrupted!\n$", out)
  end)

  it("is not lost by a block that puts things back, nor the block by it", function()
    local out = run [[
      print(pcall(function()
        local _ <close> = host.closing(function(problem)
          signal()
          print("put back", problem)
        end)
        error("wrong", 0)
      end))
    ]]
    assert.matches("^put back\twrong\nfalse\t[^\n]*interrupted!\n$", out)
  end)

  it("that comes twice ends what waits", function()
    local out, code = run [[
      host.uninterrupted(function()
        signal()
        print "once"
        io.stdout:flush()
        signal()
        print "twice"
      end)
    ]]
    assert.same({ "once\n", 130 }, { out, code })
  end)

  it("while a step is noted waits for the end of that", function()
    local out = run(STEP .. [[
      make()
      optimizer._clock = setmetatable({}, { __index = optimizer._clock, __newindex = function(clock, key, value)
        signal()
        rawset(clock, key, value)
      end })
      print(pcall(act))
      print(check(), optimizer:state_dict().updates)
    ]])
    assert.matches("^false\t[^\n]*interrupted!\nnil\t1\n$", out)
  end)

  it("in a save leaves a whole checkpoint, and the next save is not refused", function()
    local out = run [[
      local model = nn.Linear(2, 2)
      local save = nn.Linear.save
      rawset(model, "save", function(...)
        signal()
        return save(...)
      end)
      print(pcall(checkpoint.save, "a", { model = model }))
      print(#checkpoint.verify "a", os.rename("a.writing", "b"))
      print(checkpoint.save("a", { model = nn.Linear(2, 2) }))
    ]]
    assert.matches("^false\t[^\n]*interrupted!\n0\tnil\t[^\n]*\n\n$", out)
  end)

  it("while checkpoints are looked at is not taken for damage", function()
    run [[for _, name in ipairs { "a", "b" } do checkpoint.save("r/" .. name, { model = nn.Linear(2, 2), value = 1 }) end]]
    for _, call in ipairs { 'latest("r")', 'best("r", "max")', 'verify("r/b")', 'list("r")', 'prune("r", { last = 1 })' } do
      local out = run(([[
        for _, name in ipairs { "checksum", "folder_list" } do
          local native = host[name]
          host[name] = function(...)
            host[name] = native
            signal()
            return native(...)
          end
        end
        print(pcall(function() print(checkpoint.%s) end))
      ]]):format(call))
      assert.matches("^false\t[^\n]*interrupted!\n$", out, nil, nil, call)
    end
    assert.equal("a\nb\n", process.run(place, "ls r").out)
  end)

  it("while a run looks for its checkpoint ends the run, and leaves all of it", function()
    local script = [[
      if os.getenv "HIT" then
        local checksum = host.checksum
        host.checksum = function(path)
          host.checksum = checksum
          signal()
          return checksum(path)
        end
      end
      return optlua.spec {
        name = "s", config = { batch_size = 4, epochs = 3, optimizer = { class = "SGD", lr = 0.1 } },
        build_data = function() return optlua.testing.points { n = 8 } end,
        build_model = function() return nn.Linear(4, 3) end,
        build_loss = function() return nn.CrossEntropyLoss() end,
      }
    ]]
    process.write(place .. "/s.lua", PRELUDE .. script)
    local first = process.run(place, "optlua s.lua --out r --checkpoint_every=1 --keep_last=9; cat r/log.csv; ls r/checkpoints")
    assert.equal("", first.err)
    local result = process.run(place, "HIT=1 optlua s.lua --resume r")
    assert.matches("interrupted!", result.err)
    assert.same({ 130, "" }, { result.code, result.out })
    assert.not_matches("damaged", result.err)
    assert.equal(first.out:match "step,.*", process.run(place, "cat r/log.csv; ls r/checkpoints").out)
  end)
end)

describe("a lock", function()
  it("that nobody can reach any more keeps nobody out", function()
    assert.equal("true\nfalse\n", (run [[
      checkpoint.lock "r"
      lock = checkpoint.lock "r"
      print(lock ~= nil)
      print((pcall(checkpoint.lock, "r")))
    ]]))
  end)
end)
