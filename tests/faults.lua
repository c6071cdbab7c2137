-- faults: lets each call that writes fail in turn, in each way, while something is saved. Run by tests/faults_spec.lua:
--
--   LD_PRELOAD=FAULTS optlua tests/faults.lua FAULTS FOLDER      FAULTS: the library of tests/c/faults.c
--
-- Whatever fails, there is an error, what was there before is whole, and nothing lies about. Where nothing fails, what has a
-- name is on the disk before it gets it, and so is the name at the end.
local optlua = require "optlua"
local checkpoint = optlua.checkpoint
local folder = require "optlua.checkpoint.folder"
local host = require("optlua.core").hidden
local faults = assert(package.loadlib(arg[1], "luaopen_faults"))()
local place = arg[2]

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- All that lies in a folder: names with contents.
local function contents(path, into)
  into = into or {}
  for _, entry in ipairs(host.folder_list(path)) do
    local below = path .. "/" .. entry.name
    if entry.is_folder then contents(below, into) else into[below] = read(below) end
  end
  return into
end

local function open_files() return #host.folder_list "/proc/self/fd" end

local function same(a, b)
  for name, text in pairs(a) do
    if b[name] ~= text then return false, name .. (b[name] and " differs" or " is missing") end
  end
  for name in pairs(b) do
    if not a[name] then return false, name .. " lies about" end
  end
  return true
end

local counts = {}

-- Lets each call of write() fail. What it wrote when all went well stands in `after`.
local function try(what, write, check, prepare)
  local total, kinds = 0, {}
  for _, how in ipairs { "once", "short", "on" } do
    local k = 0
    repeat
      if prepare then prepare() end
      local before, files = contents(place), open_files()
      faults.arm(k, how, place)
      local ok, problem = pcall(write)
      local _, failed = faults.disarm()
      collectgarbage()
      local label = ("%s: call %d (%s, %s)"):format(what, k, tostring(failed), how)
      if open_files() ~= files then error(label .. ": files stay open", 0) end
      if failed then
        total, kinds[failed] = total + 1, true
        check(label, ok, problem, before)
      elseif not ok then
        error(label .. ": " .. tostring(problem), 0)
      end
      k = k + 1
    until not failed
  end
  local names = {}
  for name in pairs(kinds) do names[#names + 1] = name end
  table.sort(names)
  counts[#counts + 1] = ("%s: %d faults in %s"):format(what, total, table.concat(names, ", "))
end

local function litter(label)
  for name in pairs(contents(place)) do
    if name:find "%.writing" or name:find "%.tmp$" then error(("%s: %s lies about"):format(label, name), 0) end
  end
end

-- All or nothing: an error, and everything is as before. Where all went well but closing what was brought to the disk, where
-- after that everything fails, or where a file system cannot exchange names, the new one may be there, and whole.
local function unharmed(is_whole, is_file)
  return function(label, ok, problem, before)
    if not ok and type(problem) ~= "string" then error(label .. ": no message", 0) end
    litter(label)
    local equal, why = same(before, contents(place))
    local may_be_new = label:find "%(close" or label:find ", on%)" or is_file and label:find "%(renameat2"
    if ok and equal then error(label .. ": no error, and nothing was saved", 0) end
    if not may_be_new and (ok or not equal) then error(("%s: %s (%s)"):format(label, why or "no error", problem), 0) end
    if not is_file and label:find "%(renameat2" and not problem:find("save under a new name", 1, true) then error(label .. ": " .. problem, 0) end
    if not equal and not is_whole() then error(("%s: %s, and is damaged (%s)"):format(label, why, problem), 0) end
  end
end

-- What a power cut could take from: a file or folder that has a name before it is on the disk, a name that never is.
local function check_order(what, write)
  faults.arm(math.maxinteger, "once", place)
  write()
  local _, _, trace = faults.disarm()
  local synced, pending, renames = {}, {}, 0
  for call, path, to in trace:gmatch "(%S+) (%S+) (%S*)\n" do
    if call == "fsync" then
      synced[path], pending[path] = true, nil
    else
      if call ~= "mkdir" and not synced[path] then error(("%s: %s has its name before it is on the disk\n%s"):format(what, to, trace), 0) end
      if call ~= "mkdir" then renames = renames + 1 end
      pending[to:match "^(.*)/"] = to
    end
  end
  local parent, name = next(pending)
  if parent then error(("%s: the name of %s is not brought to the disk\n%s"):format(what, name, trace), 0) end
  if renames == 0 then error(what .. ": nothing was renamed", 0) end
end

local model = optlua.nn.Linear(30, 20)
local optimizer = optlua.optim.AdamW(model)
local parts = { model = model, optimizer = optimizer }
local step = 0

local function train()
  optimizer:zero_grad()
  model(optlua.randn { 5, 30 }):square():sum():backward()
  optimizer:step()
  step = step + 1
  parts.extra = { step = step }
end

train()
check_order("a first checkpoint", function() checkpoint.save(place .. "/deep/er/ck", parts) end)
check_order("a checkpoint over another", function() checkpoint.save(place .. "/deep/er/ck", parts) end)
check_order("weights", function() model:save(place .. "/deep/w.safetensors") end)
check_order("weights over others", function() model:save(place .. "/deep/w.safetensors") end)
folder.remove(place .. "/deep")

try("a first checkpoint", function()
  checkpoint.save(place .. "/first", parts)
end, unharmed(function() return #checkpoint.verify(place .. "/first") == 0 end), function() folder.remove(place .. "/first") end)
checkpoint.save(place .. "/over", parts)
try("a checkpoint over another", function()
  train()
  checkpoint.save(place .. "/over", parts)
end, unharmed(function() return #checkpoint.verify(place .. "/over") == 0 end))

local weights = place .. "/weights.safetensors"
model:save(weights)
try("weights over others", function()
  train()
  model:save(weights)
end, unharmed(function() return optlua.load(weights).weight:equal(model.weight) end, true))
try("an .npy file", function()
  train()
  optlua.npy.save(place .. "/x.npy", model.weight)
end, unharmed(function() return optlua.npy.load(place .. "/x.npy"):equal(model.weight) end, true))

-- What cannot be read is an error, and nothing changes.
local function state_text()
  local list = { tostring(optlua.get_rng_state().position) }
  for name, value in pairs(optimizer:state_dict()) do
    list[#list + 1] = name .. (optlua.is_tensor(value) and table.concat(value:reshape(-1):totable(), " ") or type(value) ~= "table" and tostring(value) or "")
  end
  for name, value in pairs(model:state_dict()) do list[#list + 1] = name .. table.concat(value:reshape(-1):totable(), " ") end
  table.sort(list)
  return table.concat(list, "\n")
end

local function try_reading(what, load)
  local total, kinds, k = 0, {}, 0
  train()
  local before = state_text()
  repeat
    local files = open_files()
    faults.arm(k, "read", place)
    local ok, problem = pcall(load)
    local _, failed = faults.disarm()
    collectgarbage()
    local label = ("%s: call %d (%s)"):format(what, k, tostring(failed))
    if open_files() ~= files then error(label .. ": files stay open", 0) end
    if failed then
      total, kinds[failed], k = total + 1, true, k + 1
      if ok or type(problem) ~= "string" then error(label .. ": no error", 0) end
      if state_text() ~= before then error(label .. ": something has changed", 0) end
    elseif not ok then
      error(label .. ": " .. problem, 0)
    end
  until not failed
  local names = {}
  for name in pairs(kinds) do names[#names + 1] = name end
  table.sort(names)
  counts[#counts + 1] = ("%s: %d faults in %s"):format(what, total, table.concat(names, ", "))
end

try_reading("loading a checkpoint", function() checkpoint.load(place .. "/over", parts) end)
try_reading("loading weights", function() model:load(weights) end)

-- A run goes on, says it once for a file, and knows of it.
local stderr, said = io.stderr, {}
io.stderr = { write = function(_, ...) said[#said + 1] = table.concat { ... } end } -- luacheck: ignore
local spec = optlua.spec {
  name = "run", config = { steps = 3, batch_size = 4, checkpoint_every = 2, optimizer = { class = "SGD" } },
  build_model = function() return optlua.nn.Linear(4, 3) end,
  build_data = function() return optlua.testing.points { n = 16 } end,
  build_loss = function() return optlua.nn.CrossEntropyLoss() end,
}
-- What a run leaves: its files, and of logs how many lines they have.
local function left_by(path)
  local list = {}
  for name, text in pairs(contents(path)) do
    list[name:sub(#path + 1):gsub("%.tfevents.*", "")] = name:find "/log%." and tostring(select(2, text:gsub("\n", ""))) or "a file"
  end
  return list
end

local number = 0
assert(spec:run({}, { out = place .. "/run0" }))
local whole = left_by(place .. "/run0")
folder.remove(place .. "/run0")
try("a run", function()
  number, said = number + 1, {}
  return assert(spec:run({}, { out = ("%s/run%d"):format(place, number) }))
end, function(label, ok, problem)
  if not ok and not problem:find "folder of the run cannot be made" then error(label .. ": " .. problem, 0) end
  local path = ("%s/run%d"):format(place, number)
  if ok and #said == 0 then -- then nothing is missing
    local equal, why = same(whole, left_by(path))
    if not equal then error(("%s: nothing was said: %s"):format(label, why), 0) end
    for _, one in ipairs(checkpoint.list(path)) do assert(#checkpoint.verify(one) == 0, label) end
  end
  local seen = {}
  for _, line in ipairs(said) do
    local what = line:match "^optlua: (.-): "
    if what and seen[what] then error(("%s: said twice: %s"):format(label, line), 0) end
    seen[what or line] = true
  end
  folder.remove(path)
end)
io.stderr = stderr -- luacheck: ignore

for _, line in ipairs(counts) do print(line) end
print "all is well"
