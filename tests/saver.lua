-- saver: saves again and again until it is killed; what the one before it left must be whole. Run by tests/c/crash_test.c:
--
--   optlua tests/saver.lua FOLDER NUMBER LAST      NUMBER: of the optimizer; LAST: the last save that is known to have ended
--
-- Says "whole STEP NAME" when all is well, then "begin STEP" before and "done STEP" after each save.
local optlua = require "optlua"
local checkpoint = optlua.checkpoint
local folder = require "optlua.checkpoint.folder"

local place, number, last = arg[1], tonumber(arg[2]), tonumber(arg[3])
local names = optlua.optim.list()
local name = names[number % #names + 1]

io.stdout:setvbuf "no"
optlua.manual_seed(7)
local model = optlua.nn.Sequential { optlua.nn.Linear(6, 40, { bias = false }), optlua.nn.Linear(40, 2, { bias = false }) }
local optimizer = optlua.optim.container(model, name, { ema = 0.9 })
local scheduler = optlua.optim.lr_scheduler(optimizer, function(step) return 1 / (1 + step) end)
local parts = { model = model, optimizer = optimizer, scheduler = scheduler }

-- A number that depends on every element of weights and states.
local function digest()
  local sum, keys, all = 0, {}, optimizer:state_dict()
  for key, tensor in pairs(model:state_dict()) do all["model." .. key] = tensor end
  for key in pairs(all) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do
    local value = all[key]
    if optlua.is_tensor(value) then
      local flat = value:to("float64"):reshape(-1)
      value = (flat * optlua.arange(1, #flat + 1):to "float64"):sum():item()
    end
    if type(value) == "number" then sum = sum + i * value end
  end
  return ("%.17g"):format(sum)
end

-- Loads what there is: the newest of those that are numbered, and the one that is replaced each time.
local function check(path, at_least)
  local problems = checkpoint.verify(path)
  if #problems > 0 then error(table.concat(problems, "\n"), 0) end
  local extra = checkpoint.load(path, parts)
  if extra.step < at_least then error(("%s: step %d is lost; it has %d"):format(path, at_least, extra.step), 0) end
  if extra.digest ~= digest() then error(path .. ": a mixture of two saves", 0) end
  return extra.step
end

local function resume()
  local numbered = checkpoint.list(place .. "/numbered")
  for _, path in ipairs(numbered) do check(path, 0) end
  local step = folder.exists(place .. "/replaced") and check(place .. "/replaced", last) or 0
  if last > 0 and step == 0 then error("nothing is left", 0) end
  if #numbered > 0 then check(numbered[#numbered], math.max(last - 1, 0)) end
  if step > 0 then check(place .. "/replaced", last) end
  local weights = place .. "/weights.safetensors"
  local file = io.open(weights)
  if file then optlua.load(weights) end
  return step
end

local function save(step)
  parts.extra = { step = step, digest = digest() }
  checkpoint.save(place .. "/replaced", parts)
  checkpoint.save(("%s/numbered/step-%08d"):format(place, step), parts)
  model:save(place .. "/weights.safetensors")
  local list = checkpoint.list(place .. "/numbered")
  for k = 1, #list - 2 do folder.remove(list[k]) end
end

local step = resume()
parts.extra = nil
folder.sweep(place)
folder.sweep(place .. "/numbered")
print("whole", step, name)
while true do
  step = step + 1
  local x = optlua.randn { 5, 6 }
  optimizer:step(function()
    optimizer:zero_grad()
    local loss = model(x):square():sum()
    loss:backward()
    return loss
  end)
  print("begin", step)
  save(step)
  print("done", step)
end
