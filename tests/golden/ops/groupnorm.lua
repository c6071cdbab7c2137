-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["group_norm/1"] = { outputs = {{0,{3,8}}}, grads = {{24,{3,8}}} },
  ["group_norm/2"] = { outputs = {{48,{3,8}}}, grads = {{72,{3,8}},{96,{8}},{104,{8}}} },
  ["group_norm/3"] = { outputs = {{112,{2,4,5}}}, grads = {{152,{2,4,5}},{192,{4}},{196,{4}}} },
  ["group_norm/4"] = { outputs = {{200,{2,6,4,5}}}, grads = {{440,{2,6,4,5}},{680,{6}},{686,{6}}} },
  ["group_norm/5"] = { outputs = {{692,{2,3,4}}}, grads = {{716,{2,3,4}},{740,{3}}} },
  ["group_norm/6"] = { outputs = {{743,{3,4,5}}}, grads = {{803,{3,4,5}},{863,{4}},{867,{4}}} },
  ["group_norm/7"] = { outputs = {{871,{0,4,3}}}, grads = {{871,{0,4,3}},{871,{4}},{875,{4}}} },
  ["instance_norm/1"] = { outputs = {{879,{2,3,4}}}, grads = {{903,{2,3,4}}} },
  ["instance_norm/2"] = { outputs = {{927,{2,3,4}}}, grads = {{951,{2,3,4}},{975,{3}},{978,{3}}} },
  ["instance_norm/3"] = { outputs = {{981,{2,3,4,5}}}, grads = {{1101,{2,3,4,5}},{1221,{3}}} },
  ["instance_norm/4"] = { outputs = {{1224,{2,3,4}}}, grads = {{1248,{2,3,4}},{1272,{3}},{1275,{3}}} },
  ["instance_norm/5"] = { outputs = {{1278,{3,4,5}}}, grads = {{1338,{3,4,5}},{1398,{4}}} },
}
