--- test: `optlua test [DIR] [busted's options]`: runs the specs of a folder with busted, inside this program.
local blame = require "optlua.blame"

local test = {}

local USAGE = [[
usage: optlua test [DIR|FILE] [OPTION...]
runs the specs, all files *_spec.lua below a folder (default: the current one), with busted. Some of its options:
  --filter=PATTERN   only the tests whose names match a Lua pattern
  --list             names the tests, runs none
  --no-keep-going    ends at the first failure
status: 0 where all pass]]

--- Runs all files *_spec.lua below a folder (default: the current one), with the folder on package.path. Ends the program with
--- busted's status.
---@param ... string
function test.run(...)
  local words = { ... }
  if words[1] == "--help" then return print(USAGE) end
  local folder = words[1] and not words[1]:find "^%-" and table.remove(words, 1) or "."
  local found, runner = pcall(require, "busted.runner")
  if not found then blame "optlua test needs busted (Debian: lua-busted)" end
  local home = folder:match "%.lua$" and (folder:match "^(.*)/" or ".") or folder
  package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(home, home, package.path)
  _G.arg = { [0] = "optlua test", folder, "--pattern=_spec%.lua$", "--output=plainTerminal", table.unpack(words) }
  runner { standalone = false }
end

return test
