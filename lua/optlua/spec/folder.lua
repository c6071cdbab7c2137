--- folder: the folder of a run: its config, copies of its scripts, what it ran on.
local optlua = require "optlua"
local blame = require "optlua.blame"
local files = require "optlua.files"
local host = require("optlua.core").hidden

local folders = require "optlua.checkpoint.folder"

local folder = {}

--- A path without slashes at its end.
---@param path string
---@return string
function folder.clean(path) return (path:gsub("(.)/+$", "%1")) end

--- Makes a folder and those above it.
---@param path string
---@return boolean made whether the last is new
function folder.make(path)
  local ok, made = pcall(folders.make, path)
  if not ok then blame("the folder of the run cannot be made: " .. tostring(made):gsub("^[^:]+:%d+: ", "")) end
  return made
end

--- Whether a run has begun in a folder.
---@param path string
---@return boolean
function folder.is_begun(path) return files.exists(path .. "/config.lua") end

--- Whether a folder holds a run that has something to go on with, or to use: one that was killed before has not.
---@param path string
---@return boolean
function folder.is_used(path)
  if not folder.is_begun(path) then return false end
  local ok, entries = host.uninterrupted(pcall, host.folder_list, path .. "/checkpoints")
  return ok and #entries > 0 or files.exists(path .. "/last.safetensors") or files.exists(path .. "/best.safetensors")
end

-- What a run writes into its folder, whole or not at all.
local WRITTEN = { ["config.lua"] = true, ["run.json"] = true, ["log.jsonl"] = true, ["log.csv"] = true }

--- Removes what a killed run has left of files that it was writing. What else has such a name is the user's.
---@param path string
function folder.sweep(path)
  local ok, entries = host.uninterrupted(pcall, host.folder_list, path)
  for _, entry in ipairs(ok and entries or {}) do
    local name = entry.name:match "^(.*)%.%d+%-%d+%.tmp$"
    if name and (WRITTEN[name] or name:find "%.safetensors$") then os.remove(path .. "/" .. entry.name) end
  end
end

local function base_of(name) return "runs/" .. name:gsub("[^%w_.-]", "_") end

-- The number of a folder among those of a name: 1 for runs/NAME, k for runs/NAME-k; nil of others.
local function number_of(entry, base)
  local own = base:match "[^/]+$"
  if entry == own then return 1 end
  return entry:sub(1, #own + 1) == own .. "-" and entry:sub(#own + 2):find "^[1-9]%d*$" and math.tointeger(entry:sub(#own + 2)) or nil
end

--- The runs of a name, the last one first.
---@param name string
---@return string[] paths
---@return integer last the largest number; 0 where there is none
function folder.runs(name)
  local base, numbers, paths = base_of(name), {}, {}
  local ok, entries = host.uninterrupted(pcall, host.folder_list, "runs")
  for _, entry in ipairs(ok and entries or {}) do numbers[#numbers + 1] = number_of(entry.name, base) end
  table.sort(numbers, function(a, b) return a > b end)
  for i, number in ipairs(numbers) do paths[i] = number == 1 and base or base .. "-" .. number end
  return paths, numbers[1] or 0
end

--- A folder that is not there yet, behind those of the name: runs/NAME, or runs/NAME-2 …
---@param name string
---@return string
function folder.choose(name)
  folder.make "runs"
  local base, k = base_of(name), select(2, folder.runs(name))
  repeat
    k = k + 1
    local path = k == 1 and base or base .. "-" .. k
  until folder.make(path)
  return k == 1 and base or base .. "-" .. k
end

-- Writes a file, whole or not at all; what is wrong with it goes to complain(path, problem).
local function write(path, text, complain)
  local written, problem = files.write(path, text)
  if not written then complain(path, problem) end
end

-- The scripts of the run: the main one, and modules that lie in its folder; where each is, and its name from there.
local function scripts()
  local main = (_G.arg or {})[0]
  local list = {}
  if not main then return list end
  local home = main:match "^(.*)/" or "."
  list[1] = { main, main:match "[^/]+$" }
  for name in pairs(package.loaded) do
    local path = package.searchpath(name, home .. "/?.lua;" .. home .. "/?/init.lua")
    if path and not name:find "^optlua" then list[#list + 1] = { path, path:sub(#home + 2) } end
  end
  return list
end

-- Copies the scripts of the run into a folder of their own.
local function copy_scripts(path, complain)
  for _, script in ipairs(scripts()) do
    local text, copy = files.read(script[1]), path .. "/" .. script[2]
    local made, problem = host.uninterrupted(pcall, folder.make, copy:match "^(.*)/")
    if not made then return complain(path, problem) end
    if text then write(copy, text, complain) end
  end
end

--- Fills the folder of a run, which is there.
---@param path string
---@param spec optlua.Spec
---@param config optlua.Config
---@param complain fun(path: string, problem: string) told what cannot be written
function folder.fill(path, spec, config, complain)
  write(path .. "/config.lua", config:text(), complain)
  local facts = optlua.build_info()
  facts.name, facts.threads, facts.lua, facts.date = spec.name, optlua.get_num_threads(), _VERSION, os.date "!%Y-%m-%dT%H:%M:%SZ"
  write(path .. "/run.json", host.json_encode(facts, 2) .. "\n", complain)
  copy_scripts(path .. "/scripts", complain)
end

return folder
