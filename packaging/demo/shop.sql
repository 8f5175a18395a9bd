-- Orders for the demo; insert more, and they arrive in the bucket.
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL,
    amount numeric(10, 2) NOT NULL,
    changed timestamptz NOT NULL DEFAULT now()
);
INSERT INTO orders (customer, amount)
SELECT 'customer ' || n % 100, (n % 9973) / 100.0
FROM generate_series(1, 10000) AS n;
