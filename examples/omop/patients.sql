-- One row for each person: what was known on 1 January 2020, and whether type 2 diabetes was found in the two years
-- after it. For OMOP's common data model, v5.4; PostgreSQL and SQLite take it as it is.
--
-- A diagnosis counts from its second entry on, and who had one before that day is left out. With a vocabulary at hand,
-- take a concept's descendants from concept_ancestor instead of the one number.

WITH last_measured AS (
    SELECT person_id, measurement_concept_id, value_as_number,
           ROW_NUMBER() OVER (
               PARTITION BY person_id, measurement_concept_id
               ORDER BY measurement_date DESC, measurement_id DESC
           ) AS place
    FROM measurement
    WHERE measurement_date < '2020-01-01' AND value_as_number IS NOT NULL
),
diabetes AS (
    SELECT person_id, MIN(condition_start_date) AS first_day, COUNT(*) AS entries
    FROM condition_occurrence
    WHERE condition_concept_id = 201826                        -- type 2 diabetes mellitus
    GROUP BY person_id
),
hypertension AS (
    SELECT DISTINCT person_id
    FROM condition_occurrence
    WHERE condition_concept_id = 320128                        -- essential hypertension
      AND condition_start_date < '2020-01-01'
)
SELECT person.person_id,
       2020 - person.year_of_birth AS age,
       person.gender_concept_id AS gender,                     -- 8507 male, 8532 female
       systolic.value_as_number AS systolic,                   -- mmHg
       body.value_as_number AS body_mass_index,                -- kg/m2
       glucose.value_as_number AS glucose,                     -- mg/dL
       CASE WHEN hypertension.person_id IS NULL THEN 0 ELSE 1 END AS hypertension,
       CASE WHEN diabetes.entries >= 2 THEN 1 ELSE 0 END AS diabetes
FROM person
LEFT JOIN last_measured AS systolic
       ON systolic.person_id = person.person_id AND systolic.place = 1 AND systolic.measurement_concept_id = 3004249
LEFT JOIN last_measured AS body
       ON body.person_id = person.person_id AND body.place = 1 AND body.measurement_concept_id = 3038553
LEFT JOIN last_measured AS glucose
       ON glucose.person_id = person.person_id AND glucose.place = 1 AND glucose.measurement_concept_id = 3004501
LEFT JOIN diabetes ON diabetes.person_id = person.person_id
LEFT JOIN hypertension ON hypertension.person_id = person.person_id
WHERE 2020 - person.year_of_birth BETWEEN 18 AND 90
  AND (diabetes.first_day IS NULL OR diabetes.first_day BETWEEN '2020-01-01' AND '2021-12-31')
