--- files: text files: whether there is one, what is in it, writing one.
local host = require("optlua.core").hidden

local files = {}

--- Whether there is a file, or what else has a name, that can be read.
---@param path string
---@return boolean
function files.exists(path) return (host.can_read(path)) end

--- Reads a file as it is, without changing ends of lines.
---@param path string
---@param most? integer reads so many bytes at most
---@return string? text
---@return string? problem names the path
function files.read(path, most)
  local file, problem = io.open(path, "rb")
  if not file then return nil, problem end
  local text, why = file:read(most or "a")
  file:close()
  if not text and why then return nil, ("%s: %s"):format(path, why) end
  return text or ""
end

--- The lines of a file; none where it cannot be read.
---@param path string
---@return string[]
function files.lines(path)
  local lines = {}
  for line in (files.read(path) or ""):gmatch "([^\n]*)\n?" do lines[#lines + 1] = line end
  return lines
end

-- Writes into what is no regular file, such as /dev/stdout, which takes text as it comes.
local function write_through(path, text)
  local file, problem = io.open(path, "wb")
  if not file then return nil, problem end
  local written, why = file:write(text)
  local closed, why_closed = file:close()
  if written and closed then return true end
  return nil, ("%s: %s"):format(path, why or why_closed)
end

--- Writes a file, whole or not at all; into devices and pipes as it comes.
---@param path string
---@param text string
---@return boolean? written
---@return string? problem names the path
function files.write(path, text)
  local written, problem = host.uninterrupted(pcall, host.write_file, path, text)
  if written then return true end
  if tostring(problem):find "no regular file" then return write_through(path, text) end
  return nil, (tostring(problem):gsub("^[^:]+:%d+: ", ""))
end

return files
