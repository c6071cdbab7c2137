-- Memory that is not there: each allocation of a whole training step, with a checkpoint saved and loaded, fails in turn; limits of
-- the address space end a program, or it works.
local optlua = require "optlua"
local checkpoint = optlua.checkpoint
local core = require "optlua.core"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local place
before_each(function() place = process.run("/", "mktemp -d -p /dev/shm 2>/dev/null || mktemp -d").out:gsub("\n", "") end)
after_each(function() process.remove(place) end)

local function live()
  collectgarbage()
  collectgarbage()
  return core.hidden.memory().live_blocks
end

-- Parameters and states as text. Buffers are the forward pass's, which an error later leaves changed.
local function bits(given)
  local list = {}
  for name, value in pairs(given.optimizer:state_dict()) do
    if optlua.is_tensor(value) then value = table.concat(value:reshape(-1):totable(), " ") end
    list[#list + 1] = name .. "=" .. (type(value) == "table" and table.concat(value, " ") or tostring(value))
  end
  for name, tensor in given.model:named_parameters() do
    list[#list + 1] = name .. "=" .. table.concat(tensor:detach():reshape(-1):totable(), " ")
  end
  table.sort(list)
  return table.concat(list, "\n")
end

local function make(class, opts)
  optlua.manual_seed(1)
  local model = nn.Sequential { nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2) }
  local optimizer = optim.container(model, class, opts)
  return { model = model, optimizer = optimizer, scheduler = optim.lr_scheduler(optimizer, function(step) return 1 / (1 + step) end) }
end

-- A step, a save and a load; notes what has been done.
local function work(given, progress)
  local x = optlua.randn { 5, 3 }
  given.optimizer:step(function()
    given.optimizer:zero_grad()
    local loss = nn.functional.cross_entropy(given.model(x), optlua.tensor({ 0, 1, 0, 1, 1 }, { dtype = "int64" }))
    loss:backward()
    return loss
  end)
  progress.stepped = true
  checkpoint.save(place .. "/a", given)
  progress.saved = true
  checkpoint.load(place .. "/a", { model = given.model, optimizer = given.optimizer, scheduler = given.scheduler })
end

-- Lets allocation k fail; whether it did.
local function try(given, before, after, k, persistent)
  local label, progress = ("allocation %d%s"):format(k, persistent and " and all that follow" or ""), {}
  core.hidden.fail_allocations(k, persistent)
  local ok, message = pcall(work, given, progress)
  local left = core.hidden.fail_allocations(-1)
  if left > 0 or left == 0 and not persistent then return false end -- it was not reached
  if ok then -- what failed was a look at what may be removed
    assert.equal(after, bits(given), label)
    return true
  end
  assert(type(message) == "string" and message:find "memory", label .. ": " .. tostring(message))
  assert.equal(progress.stepped and after or before, bits(given), label)
  if progress.saved then assert.same({}, checkpoint.verify(place .. "/a"), label) end
  local litter = process.run(place, "ls").out:find "writing"
  assert(persistent or not litter, label) -- to list what is to be removed takes memory; the next save removes it
  return true
end

local function fail_all(class, opts, persistent)
  local given = make(class, opts)
  work(given, {}) -- states are there, and a checkpoint
  local before, rng = bits(given), optlua.get_rng_state()
  checkpoint.save(place .. "/base", given)
  work(given, {})
  local after, blocks, k = bits(given), nil, 0
  repeat
    checkpoint.load(place .. "/base", given)
    optlua.set_rng_state(rng)
    blocks = blocks or live()
    assert(live() <= blocks, "blocks are left behind")
    k = k + 1
  until not try(given, before, after, k - 1, persistent)
  return k - 1
end

describe("each allocation of a step, a save and a load", function()
  for class, opts in pairs { AdamW = { max_norm = 1, ema = 0.9 }, SGD = { momentum = 0.9, nonfinite = "skip" }, Adafactor = {}, ScheduleFreeAdamW = {},
    LBFGS = { lr = 0.1, max_iter = 2, ema = 0.9 }, ["SAM(SGD)"] = { momentum = 0.9 } } do
    it("may fail: " .. class, function()
      for _, persistent in ipairs { false, true } do
        local count = fail_all(class, opts, persistent)
        assert.is_true(count > 50, count)
        io.write(("%s: %d allocations failed in turn%s\n"):format(class, count, persistent and ", with all that follow" or ""))
      end
    end)
  end
end)

local GREEDY = [[
local optlua = require "optlua"
local model = optlua.nn.Sequential { optlua.nn.Linear(200, 200), optlua.nn.Linear(200, 2) }
local optimizer = optlua.optim.AdamW(model)
local function step()
  optimizer:zero_grad()
  model(optlua.randn { 500, 200 }):square():sum():backward()
  optimizer:step()
end
local kept = {}
local ok, message = pcall(function()
  for k = 1, 200 do
    kept[k] = optlua.ones { 16 << 20 }
    step()
  end
end)
assert(not ok and message:find "out of memory: %d+ bytes", message)
kept = nil
collectgarbage()
step()
ok, message = pcall(optlua.zeros, { 1 << 40 })
assert(not ok and message:find "out of memory", message)
print "an error, and on"
]]

describe("a limit of the address space", function()
  local function run(kilobytes, threads, command)
    return process.run(place, ("ulimit -v %d; OMP_NUM_THREADS=%d timeout 60 %s"):format(kilobytes, threads, command))
  end

  it("from 1 GB on makes errors, and no harm", function()
    if run(9000000, 1, "optlua -v").code ~= 0 then return pending "a sanitizer takes more" end
    process.write(place .. "/greedy.lua", GREEDY)
    for _, kilobytes in ipairs { 1000000, 2000000 } do
      for _, threads in ipairs { 1, 4 } do
        local result = run(kilobytes, threads, "optlua greedy.lua")
        local what = ("%d kB, %d threads: %d %s"):format(kilobytes, threads, result.code, result.err)
        if result.err:find "OpenBLAS: malloc failed" then -- newer ones end the process themselves
          assert.equal(1, result.code, what)
        else
          assert.equal("an error, and on\n", result.out, what)
        end
      end
    end
  end)

  it("under which OpenBLAS would hang is refused at once, by the program and by the library", function()
    if run(9000000, 1, "optlua -v").code ~= 0 then return pending "a sanitizer takes more" end
    process.write(place .. "/x.lua", 'require "optlua" print "loaded"')
    for _, command in ipairs { "optlua x.lua", "optlua --version", "lua5.4 x.lua" } do
      for _, kilobytes in ipairs { 60000, 150000, 300000, 500000 } do
        local result = run(kilobytes, 2, command)
        assert.equal(1, result.code, command)
        assert.matches("ulimit %-v allows %d+ MiB, and OpenBLAS, with threads: 2, would hang with less than 550 MiB", result.err)
      end
      assert.equal(0, run(600000, 2, command).code)
    end
    local header = process.read "runtime/tensor/blas.h"
    local room = process.read "lua/optlua/room.lua"
    assert.equal(("local ROOM, ROOM_A_THREAD = %s, %s"):format(header:match "OL_BLAS_ROOM%s+(%d+)", header:match "OL_BLAS_ROOM_A_THREAD%s+(%d+)"),
      room:match "local ROOM, ROOM_A_THREAD = %d+, %d+")
  end)
end)
