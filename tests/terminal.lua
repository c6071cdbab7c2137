-- terminal: talks to a program on a pseudo terminal, through script(1).
local process = require "process"

local Terminal = {}
Terminal.__index = Terminal

local SECONDS = 30 -- after which a program that does not answer is ended

---Whether this machine has pseudo terminals (a bare chroot, without /dev/pts, has none).
---@return boolean
function Terminal.available() return os.execute("script -qefc true /dev/null >/dev/null 2>&1 </dev/null") == true end

---Starts a shell command on a pseudo terminal of 80 columns.
---@param folder string where it runs; also its HOME
---@param command string
---@return table terminal with expect, send, close
function Terminal.open(folder, command)
  local pipe = folder .. "/keyboard"
  assert(os.execute("rm -f " .. process.quote(pipe) .. " && mkfifo " .. process.quote(pipe)))
  local shell = ("cd %s && PATH=%s:$PATH HOME=$PWD TERM=xterm SHELL=/bin/sh timeout %d script -qefc %s /dev/null <keyboard 2>&1"):format(
    process.quote(folder), process.quote(process.optlua:match("^(.*)/")), SECONDS, process.quote("exec env -u LUA_INIT -u OPTLUA_HISTORY " .. command))
  local self = setmetatable({ output = assert(io.popen(shell)), seen = "" }, Terminal)
  self.output:setvbuf("no")
  self.keyboard = assert(io.open(pipe, "w"))
  self.keyboard:setvbuf("no")
  return self
end

---Types text.
---@param text string
function Terminal:send(text)
  self.seen = ""
  if self.ended then error("the program has ended", 2) end
  assert(self.keyboard:write(text))
end

---Waits until the program has written the text since the last send; returns all that it wrote.
---@param text string plain
---@return string
function Terminal:expect(text)
  while not self.seen:find(text, 1, true) do
    local byte = self.output:read(1)
    self.ended = not byte
    if self.ended then error(("waited for %q, saw %q"):format(text, self.seen), 2) end
    self.seen = self.seen .. byte
  end
  return self.seen
end

---Types a line and waits for the prompt that follows; returns what the program wrote in between.
---@param line string
---@param prompt? string
---@return string
function Terminal:enter(line, prompt)
  prompt = "\n" .. (prompt or "> ")
  self:send(line .. "\n")
  local text = self:expect(prompt):gsub("\r", "")
  return text:sub(1, -1 - #prompt):match("^[^\n]*\n(.*)$") or ""
end

---Waits for the program's end; returns its exit code and what it wrote since the last send.
---@return integer code
---@return string text
function Terminal:close()
  local text = self.seen .. self.output:read("a")
  self.keyboard:close()
  local _, _, code = self.output:close()
  return code, text
end

return Terminal
