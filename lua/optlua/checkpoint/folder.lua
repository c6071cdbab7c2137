--- folder: a folder that is written whole or not at all.
--
-- The files go into a sibling folder; committing brings them to the disk and gives the folder its name. What was there is
-- what it was until then.
local files = require "optlua.files"
local host = require("optlua.core").hidden

local folder = {}

local SUFFIX = ".writing"

-- What os.remove says of a folder that is not empty, and never of a link: EEXIST, ENOTEMPTY.
local NOT_EMPTY = { [17] = true, [39] = true }

local remove_tree

-- Empties a folder; what cannot be removed stays, and the first of it is named.
local function empty(path)
  local listed, entries = host.uninterrupted(pcall, host.folder_list, path)
  if not listed then return nil, entries end
  local first
  for _, entry in ipairs(entries) do
    local ok, problem = remove_tree(path .. "/" .. entry.name)
    first = first or not ok and problem
  end
  return not first, first
end

-- Removes a folder piece by piece, or what else has that name. A link goes, and what it points to stays.
function remove_tree(path)
  local ok, problem, code = os.remove(path)
  if ok or not NOT_EMPTY[code] then return ok, problem end
  ok, problem = empty(path)
  if not ok then return nil, problem end
  return os.remove(path)
end

--- Removes a folder and what is in it. It loses its name first: killed meanwhile, this leaves no half of a checkpoint, but what
--- `sweep` removes.
---@param path string
---@return boolean? ok
---@return string? problem what could not be removed
function folder.remove(path)
  local temporary = path .. ".old" .. SUFFIX
  remove_tree(temporary)
  return remove_tree(os.rename(path, temporary) and temporary or path)
end

--- Whether there is a folder of that name.
---@param path string
---@return boolean
function folder.exists(path) return files.exists(path .. "/.") end

-- The folder that one lies in.
local function parent(path)
  local above = path:match "^(.*)/[^/]+/*$"
  return above == "" and "/" or above or "."
end

--- Makes a folder and those above it, and brings their names to the disk.
---@param path string
---@return boolean made whether the last is new
function folder.make(path)
  local made, begun = false, path:sub(1, 1) == "/" and "/" or ""
  for name in path:gmatch "[^/]+" do
    begun = begun .. name
    made = host.make_folder(begun)
    if made then host.sync(parent(begun)) end
    begun = begun .. "/"
  end
  return made
end

local function rename(from, to, path)
  local ok, problem = os.rename(from, to)
  if not ok then error(("%s: %s"):format(path, problem), 0) end
end

local function refuse(path) error(path .. ": another process is writing it", 0) end

-- A lock of a folder that is there.
local function lock_existing(folder_path, path)
  local lock = host.lock_folder(folder_path)
  if not lock then refuse(path) end
  return lock
end

local ATTEMPTS = 100 -- each fails only where another process has just given its folder its name

-- Makes the folder that is written in, empty, and for this process alone: a lock. One that a killed process has left is taken.
local function begin(temporary, path)
  for _ = 1, ATTEMPTS do
    host.make_folder(temporary)
    local lock = host.lock_folder(temporary)
    if lock == nil then refuse(path) end
    if lock then
      empty(temporary)
      return lock
    end
  end
  refuse(path)
end

-- Gives the written folder its name, and brings that to the disk; where the disk fails, what was there before gets it back.
local function commit(temporary, path)
  host.sync(temporary)
  local replaces = folder.exists(path)
  if replaces then host.exchange(temporary, path) else rename(temporary, path, path) end
  local synced, problem = pcall(host.sync, parent(path))
  if synced then return end
  if replaces then host.exchange(temporary, path) else rename(path, temporary, path) end
  error(problem, 0)
end

-- Raises for a folder whose contents are not all of those names: the others would be lost.
local function check_replaceable(path, names)
  if not folder.exists(path) then return end
  for _, entry in ipairs(host.folder_list(path)) do
    if not names[entry.name] then
      error(("%s: nothing was saved: the folder has %s in it, which would be lost"):format(path, entry.name), 0)
    end
  end
end

-- Writes a folder that is no link.
local function write(path, names, fill)
  local temporary = path .. SUFFIX
  check_replaceable(path, names)
  folder.make(parent(path))
  local lock <close> = begin(temporary, path) -- luacheck: ignore
  local ok, problem = pcall(function()
    fill(temporary)
    local old <close> = folder.exists(path) and lock_existing(path, path) or nil -- luacheck: ignore
    check_replaceable(path, names)
    commit(temporary, path)
    remove_tree(temporary) -- what was there before
  end)
  if ok then return end
  remove_tree(temporary) -- what is left of a failure
  error(problem, 0)
end

--- Writes a folder: fill(path) writes the files, each brought to the disk by itself; then the folder gets its name. One that is
--- there is replaced, where a link points if it is one, but not if it holds anything else. Two processes that write the same one
--- at once do not mix: the second is refused.
---@param path string
---@param names table<string, true> of all files that such a folder can have
---@param fill fun(path: string)
function folder.write(path, names, fill)
  host.uninterrupted(write, host.resolve(#path > 1 and path:gsub("/+$", "") or path), names, fill)
end

--- Whether a name in a folder is what a killed run has left: a folder, or a file, that was being written.
---@param name string
---@return boolean
function folder.is_temporary(name)
  return name:sub(-#SUFFIX) == SUFFIX or name:find "%.%d+%-%d+%.tmp$" ~= nil
end

--- Removes what killed runs have left in a folder. Nobody else may write there.
---@param path string
function folder.sweep(path)
  local ok, entries = host.uninterrupted(pcall, host.folder_list, path)
  for _, entry in ipairs(ok and entries or {}) do
    if folder.is_temporary(entry.name) then remove_tree(path .. "/" .. entry.name) end
  end
end

return folder
