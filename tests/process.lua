-- process: runs programs in a folder of their own and captures what they say.
local process = {}

---Quotes a word for the shell.
---@param word string
---@return string
function process.quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return (text:gsub("\n$", ""))
end

local function absolute(path) return path:match("^/") and path or capture("pwd") .. "/" .. path end

---The optlua executable under test.
process.optlua = absolute(os.getenv("OPTLUA") or "build/optlua")

---Makes an empty folder and returns its path.
---@return string
function process.folder() return capture("mktemp -d") end

---Removes a folder and all that is in it.
---@param folder string
function process.remove(folder) os.execute("rm -rf " .. process.quote(folder)) end

---Writes a file.
---@param path string
---@param text string
function process.write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

---Reads a whole file.
---@param path string
---@return string
function process.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

---Runs shell text in a folder; `optlua` in it is the executable under test.
---@param folder string
---@param command string
---@param input? string what it reads from stdin (nothing)
---@return { out: string, err: string, code: integer } result code is that of the shell
function process.run(folder, command, input)
  local stdout, stderr, stdin = os.tmpname(), os.tmpname(), os.tmpname()
  process.write(stdin, input or "")
  local script = ("cd %s || exit 99\nPATH=%s:$PATH\n%s\n"):format(
    process.quote(folder), process.quote(process.optlua:match("^(.*)/")), command)
  local _, _, code = os.execute(("sh -c %s <%s >%s 2>%s"):format(process.quote(script), stdin, stdout, stderr))
  local result = { out = process.read(stdout), err = process.read(stderr), code = code }
  for _, file in ipairs { stdout, stderr, stdin } do os.remove(file) end
  return result
end

return process
