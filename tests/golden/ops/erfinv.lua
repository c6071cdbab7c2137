-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["erfinv/1"] = { outputs = {{0,{3,4}}}, grads = {{12,{3,4}}} },
  ["erfinv/2"] = { outputs = {{24,{}}}, grads = {{25,{}}} },
  ["erfinv/3"] = { outputs = {{26,{0,3}}}, grads = {{26,{0,3}}} },
  ["erfinv/4"] = { outputs = {{26,{3,4}}}, grads = {{38,{3,4}}} },
  ["erfinv/5"] = { outputs = {{50,{4,3}}}, grads = {{62,{4,3}}} },
  ["erfinv_/1"] = { outputs = {{74,{3,4}}}, grads = {{86,{3,4}}} },
  ["erfinv_/2"] = { outputs = {{98,{}}}, grads = {{99,{}}} },
  ["erfinv_/3"] = { outputs = {{100,{0,3}}}, grads = {{100,{0,3}}} },
  ["erfinv_/4"] = { outputs = {{100,{3,4}}}, grads = {{112,{3,4}}} },
}
