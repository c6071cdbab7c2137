--- folder: the folder of a run: its config, copies of its scripts, what it ran on.
local optlua = require "optlua"
local blame = require "optlua.blame"
local files = require "optlua.files"
local host = require("optlua.core").hidden

local folders = require "optlua.checkpoint.folder"

local folder = {}

--- Makes a folder and those above it.
---@param path string
---@return boolean made whether the last is new
function folder.make(path)
  local ok, made = pcall(folders.make, path)
  if not ok then blame("the folder of the run cannot be made: " .. tostring(made):gsub("^[^:]+:%d+: ", "")) end
  return made
end

--- Whether a folder holds a run.
---@param path string
---@return boolean
function folder.is_used(path) return files.exists(path .. "/config.lua") end

--- A folder that is not there yet: runs/NAME, or runs/NAME-2 …
---@param name string
---@return string
function folder.choose(name)
  local base = "runs/" .. name:gsub("[^%w_.-]", "_")
  local path, k = base, 1
  folder.make "runs"
  while files.exists(path .. "/config.lua") or not folder.make(path) do
    k = k + 1
    path = base .. "-" .. k
  end
  return path
end

--- The last run of a name that `choose` made.
---@param name string
---@return string?
function folder.last(name)
  local base, k, last = "runs/" .. name:gsub("[^%w_.-]", "_"), 1, nil
  local path = base
  while files.exists(path .. "/config.lua") do
    k, last = k + 1, path
    path = base .. "-" .. k
  end
  return last
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
    local made, problem = pcall(folder.make, copy:match "^(.*)/")
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
