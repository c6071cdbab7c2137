--- config: values of a plain script that its command line can change; see tree.lua for how.
local blame = require "optlua.blame"
local command = require "optlua.config.command"
local help = require "optlua.config.help"
local Config = require "optlua.config.tree"

local switches = {
  { "--config FILE", "takes values from a file: Lua data, JSON or YAML; may be given again" },
  { "--print-config", "prints the values as a config file and ends" },
  { "--help", "prints this and ends" },
}
local kinds = { config = "value", help = "flag", ["print-config"] = "flag" }

--- The values of a script, changed by its command line: every key is an option (--key=value, --a.b=value), checked
--- against its default or its description (optlua.arg). --help, --print-config and --config FILE work too.
---
---     local optlua = require "optlua"
---     local cfg = optlua.config({ epochs = 3, lr = optlua.arg { default = 0.1, min = 0 } }, { "--epochs=5" })
---     print(cfg.epochs, cfg.lr) --> 5 0.1
---@param given table<string, any>
---@param words? string[] default: the global `arg`
---@return table values reading a name that is not there raises
local function config(given, words)
  local self = Config.new(given)
  local read, problems = command.read(words or _G.arg or {}, self, kinds)
  if read.help then
    print(help.text(self, ("usage: optlua %s [--key=value ...]"):format((_G.arg or {})[0] or "SCRIPT"), switches))
    os.exit(0, true)
  end
  if #problems > 0 then blame("optlua.config: " .. table.concat(problems, "\noptlua.config: ")) end
  local values = self:finish "optlua.config"
  for _, note in ipairs(self.notes) do io.stderr:write("optlua: ", note, "\n") end
  if read["print-config"] then
    io.write(self:text())
    os.exit(0, true)
  end
  return values
end

return config
