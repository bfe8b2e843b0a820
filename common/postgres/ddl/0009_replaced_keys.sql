-- The key that replaced another one by a rotation. It is kept when that key is forgotten.
ALTER TABLE api_keys ADD COLUMN replaced_by uuid;
