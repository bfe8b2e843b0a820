#!/bin/bash
# As the official image: KAFKA_A_B=x is the property a.b=x, two underscores are one, three a dash; storage is formatted once.
set -e
properties=/tmp/server.properties
env | grep '^KAFKA_' | grep -v '^KAFKA_HEAP_OPTS=' | while IFS='=' read -r name value; do
  name=$(echo "${name#KAFKA_}" | tr '[:upper:]' '[:lower:]' | sed 's/___/-/g; s/__/%/g; s/_/./g; s/%/_/g')
  echo "$name=$value"
done >$properties
java=(/opt/java/bin/java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "/opt/kafka/libs/*")
[ -e "$KAFKA_LOG_DIRS/meta.properties" ] ||
  "${java[@]}" kafka.tools.StorageTool format --cluster-id clearspan-test-cluster --config $properties
# shellcheck disable=SC2086 # several options
exec "${java[@]}" $KAFKA_HEAP_OPTS kafka.Kafka $properties
