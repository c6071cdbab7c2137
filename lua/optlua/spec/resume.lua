--- resume: how a run goes on from a checkpoint: which one is meant, whose values hold, what of what came later goes.
local checkpoint = require "optlua.checkpoint"
local clean = require("optlua.spec.folder").clean
local files = require "optlua.files"
local folder = require "optlua.checkpoint.folder"
local host = require("optlua.core").hidden
local hyper = require "optlua.optim.hyper"
local keeper = require "optlua.spec.keeper"
local log = require "optlua.spec.log"
local options = require "optlua.options"
local policies = require "optlua.spec.policy"

local resume = {}

--- The checkpoint that a path means: itself, or the last whole one of a run or of a folder of checkpoints.
---@param path string
---@return string? found
---@return string? problem
function resume.find(path)
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
  list[#list + 1] = rawget(optimizers, "_whole") or nil
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
function resume.load(state, path, policy, surgery)
  local parts, wanted = keeper.parts(state), bases(state.optimizers)
  print_differences(state, path)
  local extra, differences, report = load_parts(path, parts, { surgery = surgery,
    resume = policy:of "lr_scheduler" == "rebase" and "rebase" or "config" })
  print_report(report)
  for _, key in ipairs { "step", "epoch", "best", "reached", "waited", "skipped", "validated", "loss", "of_epoch", "results" } do
    state[key] = extra[key] or state[key]
  end
  state.reached = state.reached or state.best and state.best.value
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
function resume.later(state, path)
  local list = checkpoint.list(keeper.place_of(state))
  local own = place_in(list, path)
  return own and table.move(list, own + 1, #list, 1, {})
end

--- Whether a checkpoint is one of a run's own: it lies in its folder.
---@param path string
---@param out string the folder of the run
---@return boolean
function resume.is_own(path, out)
  local place, home = host.real_path(path), host.real_path(out)
  return place ~= nil and home ~= nil and (home == "/" or place:sub(1, #home + 1) == home .. "/")
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

-- What the last of some checkpoints that can be read knew of its run.
local function last_record(paths)
  for k = #paths, 1, -1 do
    local saved = checkpoint.read(paths[k])
    if saved and saved.extra then return saved.extra end
  end
  return {}
end

-- What is the best of what is dropped stays: its weights as a copy, its checkpoint, if it has one, under another name. Where; or nil.
local function keep_best(state, later)
  local best = last_record(later).best
  local weights = state.out .. "/best.safetensors"
  if not best or best.step <= state.step or not files.exists(weights) then return nil end
  local name = free_name(("%s/best-step-%08d"):format(state.out, best.step))
  local written, problem = files.write(name .. ".safetensors", files.read(weights))
  if not written then error(("%s.safetensors: %s; nothing was dropped"):format(name, problem), 0) end
  os.rename(keeper.path_of(state, best.step), name)
  return name .. ".safetensors"
end

--- When a run has gone on in its folder from a checkpoint: what was written behind it goes, checkpoints and records of the log, but
--- for the best of it.
---@param state optlua.State that has gone on
---@param later string[]? checkpoints behind that
function resume.drop_later(state, later)
  local function complain(file, problem) state.log_file:fail(file, problem) end
  if later and #later > 0 then
    local kept = keep_best(state, later)
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

return resume
