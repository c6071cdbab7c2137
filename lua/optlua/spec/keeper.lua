--- keeper: the checkpoints of a run: when they are written, which are kept, how a run goes on from one.
local checkpoint = require "optlua.checkpoint"
local files = require "optlua.files"
local folder = require "optlua.checkpoint.folder"
local host = require("optlua.core").hidden
local optlua = require "optlua"
local hyper = require "optlua.optim.hyper"
local joined = require "optlua.spec.joined"
local log = require "optlua.spec.log"
local options = require "optlua.options"
local clean = require("optlua.spec.folder").clean
local policies = require "optlua.spec.policy"

local keeper = {}

local function place_of(state) return state.out .. "/checkpoints" end

local function path_of(state, step) return ("%s/step-%08d"):format(place_of(state), step) end

-- What a run knows of itself besides its parts.
local function progress(state, config_text)
  return { step = state.step, epoch = state.epoch, best = state.best, waited = state.waited, skipped = state.skipped,
    validated = state.validated, loss = state.loss, of_epoch = state.of_epoch, results = state.results, config = config_text }
end

--- What a run saves: its model and loader, its optimizer and scheduler, or, where there are several, those joined.
---@param state optlua.State
---@return table
function keeper.parts(state)
  local scheduler = state.lr_schedulers
  return {
    model = state.model, loader = state.loader,
    optimizer = state.manual and joined.optimizers(state.optimizers) or state.optimizers,
    scheduler = scheduler and (type(scheduler.state_dict) == "function" and scheduler or joined.schedulers(scheduler)),
  }
end

-- Whether a message is that of the file system: it begins with the path of a folder or of what is in it, as that is spelt or as
-- it is from the root.
local function is_of_files(problem, path)
  for _, text in ipairs { problem, (problem:gsub("^[^\n]-:%d+: ", "", 1)) } do -- with its position in Lua, or without
    for _, place in ipairs { path, host.real_path(path) } do
      if text:sub(1, #place) == place and text:find("^[/:]", #place + 1) then return true end
    end
  end
  return false
end

--- Calls a function that writes into a folder. What the file system refuses is returned; other errors are raised.
---@param path string
---@return boolean ok
---@return string? problem
function keeper.try(path, fn, ...)
  local ok, problem = pcall(fn, ...)
  if ok or is_of_files(tostring(problem), path) then return ok, problem end
  error(problem, 0)
end

-- What the checkpoint of now is measured by, where it was.
local function value_of(state)
  return state.validated == state.step and state.results[state.monitor] or nil
end

--- Writes a checkpoint, and the time that it took into the log. One that cannot be written is said, and the run goes on.
---@param state optlua.State
function keeper.save(state)
  state.best_due = nil
  if not state.out or state.saved == state.step then return end
  local parts, config, began = keeper.parts(state), state.config, optlua.clock()
  parts.extra, parts.value = progress(state, state.config_text), value_of(state)
  local path = path_of(state, state.step)
  local saved, problem = keeper.try(state.out, checkpoint.save, path, parts)
  state.saved_at = optlua.clock()
  if not saved then return state.log_file:fail(place_of(state), problem) end
  state.saved = state.step
  state.log_file:write { event = "checkpoint", step = state.step, epoch = state.updated_in or state.epoch, seconds = state.saved_at - began }
  checkpoint.prune(place_of(state), { last = config.keep_last, best = config.keep_best and state.monitor_mode or nil })
end

local FIRST = 1 -- minutes until the first checkpoint, at most

--- Writes a checkpoint when it is time: every so many updates or minutes, the first after a minute at most.
---@param state optlua.State
function keeper.after_update(state)
  local every, minutes = state.config.checkpoint_every, state.config.checkpoint_minutes
  if not state.saved then minutes = math.min(minutes or FIRST, FIRST) end
  if state.best_due or every and state.step % every == 0 then keeper.save(state) end
  if minutes and optlua.clock() - (state.saved_at or state.began) >= 60 * minutes then keeper.save(state) end
end

--- Writes the first checkpoint of a run, if there is none yet, when an epoch has ended.
---@param state optlua.State
function keeper.after_epoch(state)
  if not state.saved then keeper.save(state) end
end

-- Going on -------------------------------------------------------------------------------------------------

--- The checkpoint that a path means: itself, or the last whole one of a run or of a folder of checkpoints.
---@param path string
---@return string? found
---@return string? problem
function keeper.find(path)
  path = clean(path)
  if checkpoint.read(path) and not folder.exists(path .. "/checkpoints") then return path end
  local found, damaged = checkpoint.latest(path)
  for _, one in ipairs(damaged) do io.stderr:write(("optlua: %s is damaged, and is passed over\n"):format(one)) end
  if found then return found end
  if path:find "%.safetensors$" then return nil, path .. ": these are weights alone, with which --from begins; a checkpoint is a folder" end
  return nil, ("%s: there is no checkpoint"):format(path)
end

-- The groups of an optimizer, and its numbers as a whole.
local function holders(optimizers)
  local groups = rawget(optimizers, "_groups") or {}
  local list = table.move(groups, 1, #groups, 1, {})
  list[#list + 1] = rawget(optimizers, "_whole")
  return list
end

-- The base values of all groups.
local function bases(optimizers)
  local list = {}
  for _, group in ipairs(holders(optimizers)) do
    list[group] = {}
    for _, name in ipairs(group.class.hyper_names) do list[group][name] = hyper.thaw(group.base[name]) end
  end
  return list
end

local function value_text(value) return value == nil and "nothing" or hyper.text(value) end

-- The config's values win over those that were saved, unless the policy says otherwise, and what differs is said.
local function prefer_config(state, wanted, policy)
  for _, group in ipairs(holders(state.optimizers)) do
    for _, name in ipairs(group.class.hyper_names) do
      local own = wanted[group][name]
      local saved, now = value_text(hyper.thaw(group.base[name])), value_text(own)
      if saved ~= now and policy:of(("groups.%s.%s"):format(group.name, name), "optimizer." .. name) ~= "checkpoint" then
        print(("resume: %s of %s: %s, was saved as %s"):format(name, group.place or "group " .. group.name, now, saved))
        group:assign(name, own)
      end
    end
  end
end

-- Whether a key of the config is a hyperparameter, which is said by groups.
local function is_hyper(state, key)
  local name = key:match "^optimizer%.([^.]+)$" or key:match "^groups%.[^.]+%.([^.]+)$"
  for _, group in ipairs(name and holders(state.optimizers) or {}) do
    if group.class.hyper[name] then return true end
  end
  return false
end

-- Says which names of a checkpoint were missing, and begin anew, or were left out.
local function print_report(report)
  for _, part in ipairs(options.names(report)) do
    for _, kind in ipairs { "missing", "unexpected" } do
      local names = report[part][kind]
      if #names > 0 then print(("resume: %s: %s: %s"):format(part, kind, table.concat(names, ", "))) end
    end
  end
end

-- Says how the config differs from the one that was saved. What loads begins with the random numbers, and data, of its checkpoint:
-- another seed changes nothing.
local function print_differences(state, path)
  local saved = checkpoint.read(path) or {}
  for _, item in ipairs(policies.differences(state.config_text, (saved.extra or {}).config)) do
    local note = item.key == "seed" and "; the run goes on with the random numbers of its checkpoint" or ""
    if not is_hyper(state, item.key) then print("resume: " .. item.line .. note) end
  end
end

-- What helps where a checkpoint does not fit.
local HINT = "\nto go on all the same: --resume-policy=checkpoint takes the checkpoint's optimizer; --surgery FILE changes names and"
  .. " tensors (with saved.strict = false what is missing begins anew); --from FILE begins with weights alone"

-- Loads a checkpoint into the parts of a run.
local function load_parts(path, parts, opts)
  local results = table.pack(pcall(checkpoint.load, path, parts, opts))
  if results[1] then return table.unpack(results, 2, results.n) end
  local problem = tostring(results[2])
  error(problem .. (problem:find "does not fit" and HINT or ""), 0)
end

--- Goes on from a checkpoint. The policy says whose values hold where the config and the checkpoint differ; what differs is said.
--- Where surgery says that names may be missing, or be left over, these are said too.
---@param state optlua.State
---@param path string
---@param policy optlua.Policy
---@param surgery? fun(saved: optlua.checkpoint.Surgery)
function keeper.resume(state, path, policy, surgery)
  local parts, wanted = keeper.parts(state), bases(state.optimizers)
  print_differences(state, path)
  local extra, differences, report = load_parts(path, parts, { surgery = surgery,
    resume = policy:of "lr_scheduler" == "rebase" and "rebase" or "config" })
  print_report(report)
  for _, key in ipairs { "step", "epoch", "best", "waited", "skipped", "validated", "loss", "of_epoch", "results" } do
    state[key] = extra[key] or state[key]
  end
  state.results, state.saved, state.resumed_at = state.results or {}, state.step, state.step
  for _, line in ipairs(differences) do print("resume: " .. line) end
  if not state.manual then prefer_config(state, wanted, policy) end
  print(("resume: %s, step %d, epoch %d"):format(path, state.step, state.epoch))
end

-- The place of a checkpoint in a list, however it is spelt; nil of one that is elsewhere.
local function place_in(list, path)
  local wanted = host.real_path(path)
  for k, one in ipairs(list) do
    if host.real_path(one) == wanted then return k end
  end
end

--- The checkpoints of a run behind that from which it has gone on; nil where that lies elsewhere.
---@param state optlua.State that has gone on
---@param path string of the checkpoint
---@return string[]? paths
function keeper.later(state, path)
  local list = checkpoint.list(place_of(state))
  local own = place_in(list, path)
  return own and table.move(list, own + 1, #list, 1, {})
end

-- A name in the folder of a run that nothing has: this one, or this one with a number.
local function free_name(base)
  local name, k = base, 1
  while files.exists(name .. ".safetensors") or folder.exists(name) do
    k = k + 1
    name = ("%s-%d"):format(base, k)
  end
  return name
end

-- What is the best of what is dropped stays: its weights as a copy, its checkpoint, if it has one, under another name. Where; or nil.
local function keep_best(state, last, complain)
  local best = ((checkpoint.read(last) or {}).extra or {}).best
  local weights = state.out .. "/best.safetensors"
  if not best or best.step <= state.step or not files.exists(weights) then return nil end
  local name = free_name(("%s/best-step-%08d"):format(state.out, best.step))
  local written, problem = files.write(name .. ".safetensors", files.read(weights))
  if not written then complain(name .. ".safetensors", problem) end
  os.rename(path_of(state, best.step), name)
  return name .. ".safetensors"
end

--- When a run has gone on in its folder from a checkpoint: what was written behind it goes, checkpoints and records of the log, but
--- for the best of it.
---@param state optlua.State that has gone on
---@param later string[]? checkpoints behind that
function keeper.drop_later(state, later)
  local function complain(file, problem) state.log_file:fail(file, problem) end
  if later and #later > 0 then
    local kept = keep_best(state, later[#later], complain)
    print(("resume: what followed step %d is dropped, %d checkpoint%s to %s%s"):format(state.step, #later, #later == 1 and "" or "s",
      later[#later], kept and "; its best is kept as " .. kept or ""))
    for k = #later, 1, -1 do -- from the last back: killed meanwhile, this leaves no gap
      if folder.exists(later[k]) then
        local removed, problem = folder.remove(later[k])
        if not removed then complain(later[k], problem) end
      end
    end
  end
  log.drop_later(state.out, later and state.step or math.huge, complain)
end

--- Locks the folder of a run for this process.
---@param path string
---@return any lock to be closed; nil where another run is in it
function keeper.lock(path)
  folder.make(path)
  return host.lock(path .. "/lock")
end

--- Removes what killed runs have left.
function keeper.sweep(path)
  folder.sweep(path)
  folder.sweep(path .. "/checkpoints")
end

return keeper
