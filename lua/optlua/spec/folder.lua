--- folder: the folder of a run: its config, copies of its scripts, what it ran on.
local optlua = require "optlua"
local blame = require "optlua.blame"
local host = require("optlua.core").hidden

local folders = require "optlua.checkpoint.folder"

local folder = {}

local function exists(path)
  local file = io.open(path, "r")
  if file then file:close() end
  return file ~= nil
end

--- Makes a folder and those above it.
---@param path string
---@return boolean made whether the last is new
function folder.make(path)
  local ok, made = pcall(folders.make, path)
  if not ok then blame("the folder of the run cannot be made: " .. tostring(made):gsub("^[^:]+:%d+: ", "")) end
  return made
end

--- A folder that is not there yet: runs/NAME, or runs/NAME-2 …
---@param name string
---@return string
function folder.choose(name)
  local base = "runs/" .. name:gsub("[^%w_.-]", "_")
  local path, k = base, 1
  folder.make "runs"
  while exists(path .. "/config.lua") or not folder.make(path) do
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
  while exists(path .. "/config.lua") do
    k, last = k + 1, path
    path = base .. "-" .. k
  end
  return last
end

local function write(path, text)
  local file, problem = io.open(path, "wb")
  if not file then blame("the folder of the run cannot be written: " .. problem) end
  local written, why = file:write(text)
  local closed, why_closed = file:close()
  if not (written and closed) then blame(("%s: %s"):format(path, why or why_closed)) end
end

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

-- The scripts of the run: the main one, and modules that lie in its folder.
local function scripts()
  local main = (_G.arg or {})[0]
  local list = {}
  if not main then return list end
  list[1] = main
  local home = main:match "^(.*)/" or "."
  for name in pairs(package.loaded) do
    local path = package.searchpath(name, home .. "/?.lua;" .. home .. "/?/init.lua")
    if path and not name:find "^optlua" then list[#list + 1] = path end
  end
  table.sort(list)
  return list
end

--- Fills the folder of a run.
---@param path string
---@param spec optlua.Spec
---@param config optlua.Config
function folder.fill(path, spec, config)
  folder.make(path)
  write(path .. "/config.lua", config:text())
  local facts = optlua.build_info()
  facts.name, facts.threads, facts.lua, facts.date = spec.name, optlua.get_num_threads(), _VERSION, os.date "!%Y-%m-%dT%H:%M:%SZ"
  write(path .. "/run.json", host.json_encode(facts, 2) .. "\n")
  for _, script in ipairs(scripts()) do
    local text = read(script)
    if text then
      folder.make(path .. "/scripts")
      write(path .. "/scripts/" .. script:match "[^/]+$", text)
    end
  end
end

return folder
