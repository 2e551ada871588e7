#!/bin/sh
# Makes the two roles and the database, once, as a superuser: stepd_owner owns the schema and migrates it, stepd serves.
# Takes their passwords from OWNER_PASSWORD and STEPD_PASSWORD; psql's own variables (PGHOST, …) say where.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --dbname "${PGDATABASE:-postgres}" \
    --username "${POSTGRES_USER:-${PGUSER:-postgres}}" \
    --set owner_password="$OWNER_PASSWORD" --set stepd_password="$STEPD_PASSWORD" <<'SQL'
create role stepd_owner login password :'owner_password';
create role stepd login password :'stepd_password';
create database stepd owner stepd_owner encoding 'UTF8' template template0;
revoke all on database stepd from public;
grant connect on database stepd to stepd;
SQL
