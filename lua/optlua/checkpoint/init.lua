--- checkpoint: all that a run has learnt, in a folder: weights and states as safetensors, the rest as JSON.
--
--   weights.safetensors    parameters and buffers of the model, by full name
--   optimizer.safetensors  tensors of the optimizer's state_dict, in their own types
--   gradients.safetensors  where they were asked for: gradients of a window that is not at its end
--   run.json               format, sizes and checksums of the files, and everything that is no tensor
--
-- In a plain loop `checkpoint.save(path, { model =, optimizer =, scheduler =, loader =, extra = })` writes one and
-- `checkpoint.load`, with the same parts, goes on from it; `checkpoint.latest(folder)` finds the last that is whole, `best` the
-- best; `prune` keeps the last few, `timer` says when one is due, `lock` keeps others out of a folder. A spec writes them by itself
-- into runs/NAME/checkpoints: after the first epoch or minute, then every checkpoint_minutes (10) or checkpoint_every updates, at
-- the end, and on SIGINT (Ctrl-C) or SIGTERM, with keep_best whenever a validation is the best; `--resume` goes on. `optlua ckpt`
-- shows, verifies and compares them.
--
-- Training waits while one is written. How long is in the log of a spec's run, as the event "checkpoint": about what the file
-- system takes to write and sync 12 bytes a parameter for AdamW (some 10 ms for a small model, seconds for 1 GB).
local files = require "optlua.files"
local host = require("optlua.core").hidden
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"
local folder = require "optlua.checkpoint.folder"
local loading = require "optlua.checkpoint.loading"
local lock_folder = require "optlua.checkpoint.lock"
local record = require "optlua.checkpoint.record"

local checkpoint = {}

local FORMAT = 2

-- How a record of an older format becomes one of the next: upgrades[1] makes format 2 of format 1.
local upgrades = {
  function(saved) -- knew of optlua's own version alone
    saved.versions, saved.version = { optlua = saved.version }, nil
  end,
}

-- Saving ---------------------------------------------------------------------------------------------------

-- The tensors of a state, those in tables under names like "memory.rows.1", and the rest, in which those are referred to.
local function split(state)
  local tensors, plain = {}, {}
  local function take_out(value, name, above)
    if type(value) ~= "table" or getmetatable(value) or above[value] then
      if not optlua.is_tensor(value) then return value end -- or what cannot be saved, which is found out later
      while tensors[name] or state[name] do name = name .. "'" end
      tensors[name] = value
      return record.reference(name)
    end
    local result = {}
    above[value] = true
    for key, item in pairs(value) do result[key] = take_out(item, ("%s.%s"):format(name, tostring(key)), above) end
    above[value] = nil
    return result
  end
  for key, value in pairs(state) do
    if optlua.is_tensor(value) then tensors[key] = value else plain[key] = take_out(value, key, {}) end
  end
  return tensors, plain
end

local function frozen(model)
  local names = {}
  for name, tensor in model:named_parameters() do
    if not tensor.requires_grad then names[#names + 1] = name end
  end
  return names
end

local parts = { model = "table", optimizer = "table", scheduler = "table", loader = "table", extra = "table", gradients = "boolean", value = "number" }

local function check_path(what, path, hint)
  if type(path) ~= "string" then
    blame(("%s: path: a string expected, got %s%s"):format(what, path == nil and "nil" or "a " .. type(path), path == nil and hint or ""))
  end
end

-- What parts are known by.
local methods = { model = "named_parameters", optimizer = "load_state_dict", scheduler = "load_state_dict", loader = "load_state_dict" }

local function check_parts(what, given)
  if type(given) ~= "table" then blame(("%s: a table of parts expected, got a %s"):format(what, type(given))) end
  for key, value in pairs(given) do
    if not parts[key] then blame(("%s: %s"):format(what, options.unknown("part", tostring(key), options.names(parts)))) end
    if type(value) ~= parts[key] then blame(("%s: %s: a %s expected, got a %s"):format(what, key, parts[key], type(value))) end
    if methods[key] and not options.is_callable(value[methods[key]]) then
      blame(("%s: %s: a table without %s is none"):format(what, key, methods[key]))
    end
  end
end

local function versions()
  local facts = optlua.build_info()
  return { optlua = facts.version, lua = _VERSION, blas = facts.blas, threads = optlua.get_num_threads() }
end

local function gradients(model)
  local found = {}
  for name, tensor in model:named_parameters() do found[name] = tensor.grad end
  return found
end

local function facts_of(path, names)
  local facts = {}
  for _, name in ipairs(names) do
    local crc, size = host.checksum(path .. "/" .. name)
    facts[name] = { crc32 = crc, bytes = size }
  end
  return facts
end

-- The text of a record, which begins with the checksum of all else.
local function seal(saved)
  local text = record.encode("checkpoint.save", saved)
  return ('{\n  "checksum": %d,\n%s'):format(host.sum(text), text:sub(3))
end

-- Whether it is as it was written. Records of older versions do not say.
local function is_intact(saved, text)
  local rest = text:match '^{\n  "checksum": %d+,\n(.*)$'
  return not saved.checksum or rest ~= nil and host.sum("{\n" .. rest) == saved.checksum
end

-- All files that one can have.
local legal = { ["run.json"] = true, ["weights.safetensors"] = true, ["optimizer.safetensors"] = true, ["gradients.safetensors"] = true }

-- Writes a checkpoint of what is there now. `mode`: the form that parameters of classes with two had.
local function write_now(path, given, mode)
  local tensors, plain = split(given.optimizer and given.optimizer:state_dict() or {})
  local pending = given.gradients and gradients(given.model) or {}
  local saved = {
    format = FORMAT, versions = versions(), date = os.date "!%Y-%m-%dT%H:%M:%SZ", rng = optlua.get_rng_state(),
    optimizer = given.optimizer and plain, scheduler = given.scheduler and given.scheduler:state_dict(),
    loader = given.loader and given.loader:state_dict(), frozen = given.model and frozen(given.model), mode = mode,
    extra = given.extra, value = given.value,
  }
  local complete, problem = pcall(record.encode, "checkpoint.save", saved) -- what cannot be saved is named before anything is written
  if not complete then blame(problem) end
  folder.write(path, legal, function(place)
    local names = {}
    local function put(name, has, write)
      if not has then return end
      write(place .. "/" .. name)
      names[#names + 1] = name
    end
    put("weights.safetensors", given.model, function(file) given.model:save(file) end)
    put("optimizer.safetensors", next(tensors), function(file) optlua.save(file, tensors) end)
    put("gradients.safetensors", next(pending), function(file) optlua.save(file, pending) end)
    saved.files = facts_of(place, names)
    host.write_file(place .. "/run.json", seal(saved))
  end)
end

--- Saves a run in a folder, whole or not at all: until the new one is complete, and on the disk, the old one of that name stays.
--- A folder that holds anything else is not replaced, and on a file system that cannot exchange two names (NFS) none is: save
--- under a new name each time there, and prune.
--- Parameters that have two forms (ScheduleFreeAdamW) are written in that for evaluation, and the optimizer's state has what it
--- takes to go on bit for bit.
---
---     local optlua = require "optlua"
---     local model = optlua.nn.Linear(2, 1)
---     local optimizer = optlua.optim.SGD(model)
---     local path = os.tmpname() .. ".ckpt"
---     optlua.checkpoint.save(path, { model = model, optimizer = optimizer, extra = { step = 7 } })
---     print(optlua.checkpoint.load(path, { model = model, optimizer = optimizer }).step) --> 7
---     require("optlua.checkpoint.folder").remove(path)
---@param path string
---@param given { model?: nn.Module, optimizer?: optlua.optim.Optimizer, scheduler?: optlua.optim.Scheduler, loader?: data.Loader, extra?: table, gradients?: boolean, value?: number } value: what it is measured by, for `best` and `prune`; extra: plain values of the script's own; gradients: whether gradients that are present are saved, for a save between two backward passes of one update; the generator's state is saved too
function checkpoint.save(path, given)
  check_path("checkpoint.save", path)
  check_parts("checkpoint.save", given)
  if given.gradients and not given.model then blame "checkpoint.save: gradients are those of a model, and there is none" end
  local optimizer = given.model and given.optimizer
  if not (optimizer and optimizer._evaluated) then return write_now(path, given) end
  local mode = optimizer:_mode()
  optimizer:_evaluated(function() write_now(path, given, mode) end)
end

-- Reading --------------------------------------------------------------------------------------------------

-- The types of a record's fields.
local fields = { checksum = "number", date = "string", extra = "table", files = "table", format = "number", frozen = "table", loader = "table",
  mode = "string", optimizer = "table", rng = "table", scheduler = "table", value = "number", versions = "table" }

-- What is wrong with the fields of a record, or nil.
local function field_problem(saved)
  for _, name in ipairs(options.names(saved)) do
    if not fields[name] then return options.unknown("field", name, options.names(fields)) end
    if type(saved[name]) ~= fields[name] then return ("%s: a %s expected, got a %s"):format(name, fields[name], type(saved[name])) end
  end
  for _, name in ipairs { "date", "files", "rng", "versions" } do
    if saved[name] == nil then return "it has no " .. name end
  end
  for name, fact in pairs(saved.files) do
    if not legal[name] then return ("files: %s is none of a checkpoint"):format(name) end
    if type(fact) ~= "table" or math.type(fact.bytes) ~= "integer" or math.type(fact.crc32) ~= "integer" then
      return ("files: %s: bytes and crc32 expected"):format(name)
    end
  end
end

-- Brings a record to the format of now.
local function upgrade(saved, path)
  local format = saved.format
  if math.type(format) ~= "integer" or format < 1 then
    if folder.exists(path .. "/checkpoints") then
      return nil, ("%s: this is the folder of a run; its checkpoints are in %s/checkpoints"):format(path, path)
    end
    return nil, path .. "/run.json: it says no format"
  end
  if format > FORMAT then
    return nil, ("%s: format %d is newer than this version of optlua knows (%d)"):format(path, format, FORMAT)
  end
  for k = format, FORMAT - 1 do upgrades[k](saved) end
  saved.format = FORMAT
  local problem = field_problem(saved)
  if problem then return nil, ("%s/run.json: %s"):format(path, problem) end
  return saved, nil, format
end

local function parse(path, text)
  local saved, problem = record.decode(text)
  if not saved then return nil, ("%s/run.json: %s"):format(path, problem) end
  if not is_intact(saved, text) then return nil, path .. "/run.json: the checksum is another one than when it was written" end
  return upgrade(saved, path)
end

-- The text of a record. A pipe in its place is not waited for.
local function read_record(path)
  local place = path .. "/run.json"
  local readable, is_regular = host.can_read(place)
  if readable and not is_regular then return nil, place .. ": it is no regular file" end
  return files.read(place)
end

--- The record of a checkpoint: everything that is no tensor.
---@param path string
---@return table? saved
---@return string? problem
---@return integer? format that it was written in
function checkpoint.read(path)
  check_path("checkpoint.read", path)
  local text, problem = read_record(path)
  if not text then return nil, problem end
  return parse(path, text)
end

local function verify_files(path, saved)
  local problems = {}
  for _, name in ipairs(options.names(saved.files)) do
    local fact = saved.files[name]
    local ok, crc, size = host.uninterrupted(pcall, host.checksum, path .. "/" .. name)
    if not ok then
      problems[#problems + 1] = tostring(crc)
    elseif size ~= fact.bytes then
      problems[#problems + 1] = ("%s/%s: %d bytes, %d were written"):format(path, name, size, fact.bytes)
    elseif crc ~= fact.crc32 then
      problems[#problems + 1] = ("%s/%s: the checksum is another one than when it was written"):format(path, name)
    end
  end
  return problems
end

--- What is wrong with the files of a checkpoint; nothing when all is well.
---@param path string
---@return string[] problems
function checkpoint.verify(path)
  check_path("checkpoint.verify", path)
  local saved, problem = checkpoint.read(path)
  if not saved then return { problem } end
  return verify_files(path, saved)
end

-- Loading --------------------------------------------------------------------------------------------------

--- Loads what `save` saved into the parts that are handed over, by name, and the generator's state. Everything that does not fit,
--- or is damaged, is named in one error, and nothing has changed.
---
---     local optlua = require "optlua"
---     local path, old, new = os.tmpname() .. ".ckpt", optlua.nn.Linear(2, 4), optlua.nn.Sequential { optlua.nn.Linear(2, 2), optlua.nn.Linear(2, 2) }
---     optlua.checkpoint.save(path, { model = old })
---     optlua.checkpoint.load(path, { model = new }, { surgery = function(saved)
---       for _, kind in ipairs { "weight", "bias" } do saved:split(kind, { "0." .. kind, "1." .. kind }) end
---     end })
---     print(new[2].bias:equal(old.bias:narrow(1, 3, 2))) --> true
---     require("optlua.checkpoint.folder").remove(path)
---
--- surgery: a function that is handed what was read and changes names and tensors, of weights and of the optimizer's states alike:
---   saved:rename("old", "new"), saved:rename(function(name) … end), which gives the new name, nil for the same or false to drop it
---   saved:drop("head.*"), by a glob
---   saved:split("qkv.weight", { "q.weight", "k.weight", "v.weight" }, { dim = 1, sizes = { … } }), equal pieces without sizes
---   saved:join({ "q.weight", "k.weight" }, "qk.weight", { dim = 1 })
---   saved:forget("head.*"): the states of these parameters begin anew
---   saved.weights, saved.state: tables by name, for all else
---   saved.strict = false: names may be missing (weights stay, states begin anew) or unexpected
---
--- Values that were saved hold afterwards, whatever the optimizer was made with: hyperparameters, max_norm and grad_scale too, as in
--- PyTorch. Schedules are those of the scheduler that is handed over, at the count of updates that was saved. (A spec goes on with the
--- values of its config.) Gradients that were saved are present, all others absent.
---@param path string
---@param given { model?: nn.Module, optimizer?: optlua.optim.Optimizer, scheduler?: optlua.optim.Scheduler, loader?: data.Loader } the table that `save` was given will do, too: `extra`, `value` and `gradients` are of saving alone
---@param opts? { surgery?: fun(saved: optlua.checkpoint.Surgery), strict?: boolean, resume?: "config"|"rebase"|"error", rng?: boolean } strict: with false names may be missing (weights stay, states begin anew) or unexpected; resume: what happens when a schedule is another one (see scheduler:load_state_dict); rng: whether the generator goes on too
---@return table extra
---@return string[] differences of schedules
---@return { model?: table, optimizer?: table } report by part: the names that were `missing` and `unexpected`
function checkpoint.load(path, given, opts)
  opts = options.check("checkpoint.load", opts, { surgery = { required = false, type = "callable" }, strict = true,
    resume = { default = "config", choices = { "config", "rebase", "error" } }, rng = true })
  check_path("checkpoint.load", path, " (checkpoint.latest and best give nil where there is no checkpoint)")
  check_parts("checkpoint.load", given)
  local text, problem = read_record(path)
  local saved
  if text then saved, problem = parse(path, text) end
  if not saved then blame("checkpoint.load: " .. problem) end
  return loading.load(path, saved, given, opts, verify_files(path, saved), function()
    return read_record(path) == text
  end)
end

-- Many -------------------------------------------------------------------------------------------------------

-- The folder that checkpoints lie in: the one that is named, or a run's own.
local function place_of(path)
  local own = path:gsub("(.)/+$", "%1") .. "/checkpoints"
  return folder.exists(own) and own or path
end

-- Runs have a run.json of their own.
local function is_checkpoint(path) return files.exists(path .. "/run.json") and not folder.exists(path .. "/checkpoints") end

-- A word that stands for a name in an order where numbers in names count as numbers: step-9, step-10.
local function rank_of(name)
  return (name:gsub("0*(%d+)", function(digits) return ("%03d%s"):format(#digits, digits) end))
end

local function before(a, b)
  local one, other = rank_of(a), rank_of(b)
  if one == other then return a < b end
  return one < other
end

--- The checkpoints in a folder, or in that of a run, by name, and by the numbers in names; links to some are not among them.
---@param path string
---@return string[] paths
function checkpoint.list(path)
  check_path("checkpoint.list", path)
  path = place_of(path)
  local ok, entries = host.uninterrupted(pcall, host.folder_list, path)
  local found = {}
  for _, entry in ipairs(ok and entries or {}) do
    local place = path .. "/" .. entry.name
    local is_own = entry.is_folder and not entry.is_link and not folder.is_temporary(entry.name)
    if is_own and is_checkpoint(place) then found[#found + 1] = place end
  end
  table.sort(found, before)
  return found
end

--- The last checkpoint in a folder, or of a run, that is whole; the names of later ones that are damaged come with it.
---@param path string
---@return string? path
---@return string[] damaged
function checkpoint.latest(path)
  check_path("checkpoint.latest", path)
  local list, damaged = checkpoint.list(path), {}
  for k = #list, 1, -1 do
    if #checkpoint.verify(list[k]) == 0 then return list[k], damaged end
    damaged[#damaged + 1] = list[k]
  end
  return nil, damaged
end

-- Those whose value can be compared, the best first; of equal ones the earlier.
local function ranked(path, mode)
  local found = {}
  for at, one in ipairs(checkpoint.list(path)) do
    local value = (checkpoint.read(one) or {}).value
    if type(value) == "number" and value == value then found[#found + 1] = { path = one, value = value, at = at } end
  end
  table.sort(found, function(a, b)
    if a.value == b.value then return a.at < b.at end
    if mode == "max" then return a.value > b.value end
    return a.value < b.value
  end)
  return found
end

local function check_mode(what, mode)
  local _, problem = options.value("mode", mode, { required = true, choices = { "min", "max" } })
  if problem then blame(("%s: %s"):format(what, problem)) end
end

--- The checkpoint in a folder, or of a run, whose `value` is the best and that is whole, and that value.
---@param path string
---@param mode "min"|"max" what is better
---@return string? path
---@return number? value
function checkpoint.best(path, mode)
  check_path("checkpoint.best", path)
  check_mode("checkpoint.best", mode)
  for _, one in ipairs(ranked(path, mode)) do
    if #checkpoint.verify(one.path) == 0 then return one.path, one.value end
  end
  return nil
end

--- Removes checkpoints of a folder, or of a run, but for the last few and, where `best` says what is better, the one with the best value.
---
---     local optlua = require "optlua"
---     local checkpoint, folder = optlua.checkpoint, os.tmpname() .. ".run"
---     for step, loss in ipairs { 0.9, 0.2, 0.5, 0.4, 0.6 } do
---       checkpoint.save(("%s/%03d"):format(folder, step), { extra = { step = step }, value = loss })
---       checkpoint.prune(folder, { last = 2, best = "min" })
---     end
---     print(#checkpoint.list(folder), checkpoint.best(folder, "min") == folder .. "/002") --> 3 true
---     require("optlua.checkpoint.folder").remove(folder)
---@param path string
---@param opts? { last?: integer, best?: "min"|"max" } last: default 3
---@return string[] removed
---@return string[] problems those that could not be removed, and why
function checkpoint.prune(path, opts)
  check_path("checkpoint.prune", path)
  opts = options.check("checkpoint.prune", opts, { last = { default = 3, integer = true, min = 1 },
    best = { required = false, type = "string", choices = { "min", "max" } } })
  local list, removed, problems = checkpoint.list(path), {}, {}
  local best = opts.best and #list > opts.last and checkpoint.best(path, opts.best)
  for k = 1, #list - opts.last do
    if list[k] ~= best then
      local ok, problem = folder.remove(list[k])
      table.insert(ok and removed or problems, ok and list[k] or ("%s: %s"):format(list[k], problem))
    end
  end
  return removed, problems
end

--- A function that tells whether a checkpoint is due: every so many updates, or minutes since it last said so.
---
---     local due = require("optlua").checkpoint.timer { every = 100, minutes = 10 }
---     print(due(99), due(100)) --> false true
---@param opts { every?: integer, minutes?: number }
---@return fun(step: integer): boolean
function checkpoint.timer(opts)
  opts = options.check("checkpoint.timer", opts, { every = { required = false, type = "integer", min = 1 },
    minutes = { required = false, type = "number", above = 0 } })
  if not opts.every and not opts.minutes then blame "checkpoint.timer: every, updates, or minutes expected" end
  local last = optlua.clock()
  return function(step)
    local now = optlua.clock()
    local due = opts.every and step > 0 and step % opts.every == 0 or opts.minutes and now - last >= 60 * opts.minutes or false
    if due then last = now end
    return due
  end
end

--- Keeps a folder for this process alone, made where it is not there, until what is returned is closed or the process ends: another that asks for it raises. What
--- killed processes have left in it, half written, is removed. A spec does so by itself.
---@param path string
---@return optlua.checkpoint.Lock lock `local lock <close> = checkpoint.lock(path)`, lock:close(), or a variable that lives as long as the run
function checkpoint.lock(path)
  check_path("checkpoint.lock", path)
  local lock = lock_folder(path)
  if not lock then blame(("checkpoint.lock: %s: another run is in this folder"):format(path)) end
  folder.sweep(path)
  return lock
end

return options.strict("optlua.checkpoint", checkpoint)
