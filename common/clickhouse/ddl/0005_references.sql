-- What a filter on `references` looks at before it reads their JSON: what stands between two quotes, so each text as a whole. No
-- column is added, and rows that were there before are found as well. A span without references costs nothing.
ALTER TABLE spans{on_cluster} ADD INDEX IF NOT EXISTS references_index references TYPE text(tokenizer = splitByString(['"']));

-- Parts that are there already get it in the background; until then their texts are searched.
ALTER TABLE spans{on_cluster} MATERIALIZE INDEX references_index;
